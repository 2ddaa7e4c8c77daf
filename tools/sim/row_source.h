// The simulated model: a row of logits as a function of (seed, request, position, previous token).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/sim/options.h"
#include "tools/sim/request_plan.h"
#include "tools/sim/vocabulary.h"

namespace croupier::tools::sim {

// Rows must be as cheap as a copy, or the simulated GPUs would take the cores from the samplers: a row is
// cut together from chunks of a few base rows, made once, and a handful of its entries are set anew.
class RowSource {
  public:
    // Throws std::runtime_error when the file of rows cannot be used.
    RowSource(const SimOptions& options, const Vocabulary& vocabulary);

    // Entries first .. first + count - 1 of the ranks' slices laid one after the other.
    void write(const Request& request, std::uint32_t position, std::int32_t previous, std::uint32_t first,
               std::uint32_t count, void* entries) const;
    // One entry, as the session's element type.
    void set_value(std::byte* entries, std::uint32_t place, float value) const;

  private:
    void generate_pool();
    void load_pool(const SimOptions& options);
    void copy_generated(std::uint64_t key, std::uint32_t first, std::uint32_t count,
                        std::byte* entries) const;
    void raise_heads(const Request& request, std::uint64_t key, std::uint32_t first, std::uint32_t count,
                     std::byte* entries) const;
    const std::byte* base(std::uint32_t row, std::uint32_t place) const {
        return pool_.data() + (std::size_t{row} * vocabulary_->geometry.vocab + place) * element_bytes_;
    }

    const Vocabulary* vocabulary_;
    std::uint64_t seed_;
    std::uint32_t element_bytes_;
    bool generated_;
    std::uint32_t rows_ = 0;
    std::vector<std::byte> pool_;
};

}  // namespace croupier::tools::sim
