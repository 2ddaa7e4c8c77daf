// A step's tokens, read from the segment by a writer's process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shm/segment.h"

namespace croupier::gpu_writer {

enum class StepState {
    undecided,
    decided,     // every column is, or the record was refused
    overwritten  // its slot holds a later step
};
StepState state_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns);

// The tokens of one step after the other, as they are decided.
class DecidedTokens {
  public:
    explicit DecidedTokens(const shm::Segment& segment)
        : segment_(segment), given_((segment.geometry().max_batch + 63) / 64) {}

    void begin(std::uint64_t step, std::uint32_t columns);

    struct Token {
        std::uint32_t column;
        std::int32_t token;  // -1: its decision is an error
    };
    // Those that were not given before, until the next call: in a step that is refused all that are left.
    // Nothing: the step's slot holds a later one.
    std::optional<std::span<const Token>> more();
    bool all_given() const { return left_ == 0; }
    // As if they were decided, with errors.
    std::span<const Token> give_up();

  private:
    void take(std::uint32_t word);

    const shm::Segment& segment_;
    std::uint64_t step_ = 0;
    std::uint32_t columns_ = 0;
    std::uint32_t left_ = 0;
    std::vector<std::uint64_t> given_;  // a bit a column
    std::vector<Token> found_;
};

}  // namespace croupier::gpu_writer
