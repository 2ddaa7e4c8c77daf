// The ids that the requests of a step's columns name: those that they allow alone, or those with a bias. They
// are copied to where the step's kernel reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu_writer/lean_wants.h"
#include "proto/geometry.h"
#include "request/plan.h"

namespace croupier::gpu_writer {

// What a request names: the ids that it allows alone, or those with a bias. The lists of one admission of a
// sequence do not change; an admission of 0 means that they belong to no sequence.
struct NamedLists {
    std::uint32_t sequence = 0;
    std::uint32_t admission = 0;
    std::span<const std::int32_t> allowed;
    std::span<const proto::TokenBias> biases;
};

class NamedIds {
  public:
    // For the lists of a step: few columns may have long ones.
    static std::size_t room_for(const proto::Geometry& geometry) {
        constexpr std::size_t kOfColumn = 1024;
        // LeanWant::names_line says where each begins.
        constexpr std::size_t kMost = std::size_t{StepNames::kLineWords} << 16U;
        return std::min(kOfColumn * geometry.max_batch, kMost);
    }

    NamedIds(std::span<std::uint32_t> room, std::uint32_t columns) : room_(room), kept_(columns) {}

    // Of the step whose lists follow.
    void begin() {
        used_ = 0;
        ++step_;
    }
    // What a column of so many blocks sends by it: everything that its plan reads, but for its mask.
    LeanWant want_of(std::uint32_t column, const request::Plan& plan, const proto::SamplingParams& params,
                     const NamedLists& lists, std::uint32_t blocks);

    StepNames names() const { return {room_.data()}; }

  private:
    struct Kept {
        std::uint32_t sequence = 0;
        std::uint32_t admission = 0;
        std::uint32_t at = 0;
        std::uint32_t count = 0;
        std::uint64_t step = 0;  // later ones may have written over it
    };

    // Where the list then stands. Nothing: there is no room for it.
    template <typename IdAt>
    std::optional<std::uint32_t> put(std::uint32_t column, const NamedLists& lists, std::uint32_t count,
                                     IdAt id_at);
    bool is_there(const Kept& kept, const Kept& list) const;

    std::span<std::uint32_t> room_;
    std::uint32_t used_ = 0;
    std::uint64_t step_ = 0;
    std::vector<Kept> kept_;  // by column
};

}  // namespace croupier::gpu_writer
