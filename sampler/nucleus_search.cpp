#include "sampler/nucleus_search.h"

#include <algorithm>
#include <limits>

#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();
// More tokens are better counted than listed.
constexpr std::uint32_t kMostListed = 2048;

}  // namespace

// All tokens from the floor on, as their adjustments leave them, are the workspace's first candidates.
NucleusSearch::Listed NucleusSearch::list(float floor, const WinnerQuestion& row) {
    const std::uint32_t found = search_.at_least(floor, pruning_.adjustments).count;
    Listed listed;
    for (const Candidate& each : workspace_.candidates.first(found)) {
        if (each.value < static_cast<double>(floor)) continue;
        workspace_.candidates[listed.count++] = each;
        listed.weight += row.weight(each.value);
    }
    return listed;
}

// The best tokens, as many as surely have the share. Of a row that is there in part, what is there first.
std::optional<std::uint32_t> NucleusSearch::list_share(const WinnerQuestion& row) {
    constexpr std::uint32_t kFirstBlocks = 32;
    // If so many tokens have so little of the mass, far more follow: a longer list would cost as much in
    // vain.
    constexpr std::uint32_t kFewListed = 256;
    constexpr double kSomeShare = 0.75;
    constexpr double kRounding = 1e-6;
    const std::span<const float> block_max = workspace_.block_max.first(row_.blocks);
    const double needed = params_.top_p * row.total().high * (1.0 + kRounding);
    // Where the heaviest ones cannot have it, as of a flat row, or all of a long row are needed.
    const double heaviest = std::max(1.0, row.weight(row.highest_changed()));
    if (needed > kMostListed * heaviest) return std::nullopt;
    if (needed > row.total().low && workspace_.vocab > kMostListed) return std::nullopt;
    const float there_from = row_.lean != nullptr ? row_.lean->there_from() : kNoFloor;
    float floor = there_from > kNoFloor ? there_from : floor_for_blocks(block_max, kFirstBlocks);
    for (;;) {
        const Listed listed = list(floor, row);
        const bool is_long = listed.count > kFewListed && listed.weight < kSomeShare * needed;
        if (row_.lacks_blocks() || is_long || listed.count > kMostListed) return std::nullopt;
        if (listed.weight >= needed || floor == kNoFloor) return listed.count;
        const std::uint32_t reached = count_at_least(block_max, floor);
        floor = std::min(floor, floor_for_blocks(block_max, 2 * std::max(reached, kFirstBlocks)));
    }
}

std::optional<Survivors> NucleusSearch::kept() {
    WinnerQuestion row(proto::Step::end, params_, row_, adjust_, search_, pruning_, workspace_);
    if (!row.begin_share()) return std::nullopt;
    const auto listed = list_share(row);
    if (!listed || *listed == 0) return std::nullopt;
    Survivors survivors(workspace_, *listed);
    survivors.weigh(pruning_.scale);
    const double best = row.weight(survivors.classes().front().value);
    if (survivors.keep_top_p_of_row(params_.top_p, row.total().low / best, row.total().high / best))
        return survivors;
    row.ask_for_closer_total();
    return std::nullopt;
}

}  // namespace croupier::sampler
