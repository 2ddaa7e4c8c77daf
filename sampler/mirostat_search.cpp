#include "sampler/mirostat_search.h"

#include <algorithm>
#include <cstdint>

#include "sampler/draw.h"
#include "sampler/float_bounds.h"
#include "sampler/formulas.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {

// Version 1 estimates from the best how many it keeps. That it counts the others does not matter: to keep
// more than there are is to keep all.
std::optional<Survivors> MirostatSearch::kept_by_estimate() {
    constexpr std::uint32_t kMostKept = 4096;
    Pruning best = pruning_;
    best.top_k = kMirostatEstimates;
    for (;;) {
        const std::uint32_t candidates = search_.search(best).count;
        if (candidates == 0 || row_.lacks_blocks()) return std::nullopt;
        Survivors survivors(workspace_, candidates);
        survivors.weigh(pruning_.scale);
        const std::uint64_t left =
            candidates < static_cast<std::uint32_t>(best.top_k) ? candidates : workspace_.vocab;
        const std::uint64_t kept = mirostat_kept(params_, request_, survivors, left, workspace_.vocab);
        if (kept <= candidates || candidates < static_cast<std::uint32_t>(best.top_k)) {
            survivors.keep_top_k(static_cast<std::uint32_t>(kept));
            return survivors;
        }
        if (kept > kMostKept) return std::nullopt;
        best.top_k = static_cast<std::int32_t>(kept);
    }
}

// Version 2 keeps the tokens from a share of the row's weight on.
std::optional<Survivors> MirostatSearch::kept_by_surprise() {
    // A share that small leaves no bound; so many tokens are better counted than listed.
    constexpr double kMostBits = 24.0;
    constexpr std::uint32_t kMostListed = 4096;
    const double level = mirostat_level(params_, request_.feedback);
    WinnerQuestion row(proto::Step::end, params_, row_, adjust_, search_, pruning_, workspace_);
    if (!(level <= kMostBits) || !row.begin_share()) return std::nullopt;
    const double share = share_of_surprise(std::max(0.0, level));
    const double floor = std::min(row.value_of(row.total().low * share * 0.99), row.highest());
    const std::uint32_t candidates = search_.at_least(float_below(floor), pruning_.adjustments).count;
    if (candidates == 0 || candidates > kMostListed || row_.lacks_blocks()) return std::nullopt;
    Survivors survivors(workspace_, candidates);
    survivors.weigh(pruning_.scale);
    // The best is kept in any case: it must be the best of all.
    if (survivors.classes().front().value < floor) return std::nullopt;
    const double best = row.weight(survivors.classes().front().value);
    const bool told = survivors.keep_surprise_of_row(level, row.total().low / best, row.total().high / best);
    if (told) return survivors;
    row.ask_for_closer_total();
    return std::nullopt;
}

}  // namespace croupier::sampler
