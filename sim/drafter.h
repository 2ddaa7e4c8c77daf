// What the rows of a window are computed from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/workspace.h"
#include "sim/whole_row.h"

namespace croupier::sim {

struct DraftedRow {
    std::int32_t input = -1;   // proto::RowInput::kNone: there is no row
    std::uint32_t parent = 0;  // within the window; of its head: itself
    std::uint32_t position = 0;
};

// The first row of a window, or its only one.
DraftedRow head_behind(std::span<const std::int32_t> output);

// A replay's rows: a chain through the tokens that were cut off behind these.
std::vector<DraftedRow> replayed_behind(std::span<const std::int32_t> output,
                                        std::span<const std::int32_t> cut);

// The draft model, a function of the run's seed, the request, its tokens and who the ranks' writers are: all
// ranks draft the same, and a writer that takes over something else.
class Drafter {
  public:
    explicit Drafter(const World& world);

    // A window of so many rows, two or more, whose head follows these tokens. A chain or a tree; four drafts
    // of five are right, the others wrong or absent, or another draft's twin.
    const std::vector<DraftedRow>& draft(const Request& request, std::span<const std::int32_t> prompt,
                                         std::span<const std::int32_t> output, std::uint32_t rows,
                                         std::uint32_t writers);

  private:
    // What is decided behind these tokens, but for the feedback of earlier positions.
    std::int32_t guess(const Request& request, std::span<const std::int32_t> prompt,
                       std::span<const std::int32_t> output);

    const World& world_;
    WholeRow row_;
    sampler::Workspace workspace_;
    std::vector<DraftedRow> rows_;
    std::vector<std::int32_t> path_;
};

}  // namespace croupier::sim
