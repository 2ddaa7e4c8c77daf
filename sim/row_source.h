// The simulated model: a row of logits as a function of (seed, request, position, previous token).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/hidden_state.h"
#include "sim/options.h"
#include "sim/request_plan.h"
#include "sim/vocabulary.h"

namespace croupier::sim {

// Rows must be as cheap as a copy, or the simulated GPUs would take CPU time from the samplers. So a row is
// assembled from chunks of a few precomputed base rows, and a few entries are overwritten.
class RowSource {
  public:
    // Throws std::runtime_error if the file of rows cannot be used.
    RowSource(const SimOptions& options, const Vocabulary& vocabulary);

    // The logits of the ids first .. first + count - 1.
    void write(const Request& request, std::uint32_t position, std::int32_t previous, std::uint32_t first,
               std::uint32_t count, void* entries) const;
    // Sets one entry, in the session's element type.
    void set_value(std::byte* entries, std::uint32_t index, float value) const;

    // The same model in the form of an LM head's weights.
    const ModelShape& shape() const { return shape_; }
    std::uint32_t raised_id(std::uint32_t number) const;
    const std::byte* base(std::uint32_t row, std::uint32_t id) const {
        return pool_.data() + (std::size_t{row} * shape_.vocab + id) * element_bytes_;
    }

  private:
    void generate_pool();
    void load_pool(const SimOptions& options);
    void copy_chunks(std::uint64_t key, std::uint32_t first, std::uint32_t count, std::byte* entries) const;

    const Vocabulary* vocabulary_;
    std::uint32_t element_bytes_;
    ModelShape shape_;
    std::vector<std::byte> pool_;
};

}  // namespace croupier::sim
