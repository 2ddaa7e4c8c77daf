#include "sampler/mass_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Mass whole(double weight) {
    return static_cast<Mass>(weight * kMassUnit);
}

}  // namespace

// What the changed tokens weigh more than they did. Nothing: one outweighs the unit.
std::optional<double> MassSearch::weigh_changes() {
    const Weigher weigh = raw_weigher();
    bool sound = true;
    double change = 0.0;
    adjust_.visit_changed(on_, [&](std::uint32_t token) {
        std::uint64_t& listed = workspace_.listed[token / 64];
        const std::uint64_t bit = std::uint64_t{1} << (token % 64);
        if ((listed & bit) != 0 || !sound) return;
        listed |= bit;
        const float raw = row_.value_at(token);
        const double adjusted = adjust_(token, raw, on_);
        sound = adjusted <= unit_;
        if (!sound || adjust_.masked(token)) return;
        change += weigh.weight(adjusted) - weigh.weight(static_cast<double>(raw));
    });
    adjust_.visit_changed(on_, [&](std::uint32_t token) { workspace_.listed[token / 64] = 0; });
    return sound ? std::optional(change) : std::nullopt;
}

std::optional<MassSearch::Known> MassSearch::weigh_row() {
    unit_ = static_cast<double>(largest_of(workspace_.block_max.first(row_.blocks)));
    if (!request_.mask.empty()) {
        Pruning best;
        best.top_k = 1;
        const Gathered found = search_.search(best);
        if (found.count == 0) return std::nullopt;
        unit_ = kNothing;
        for (const Candidate& each : workspace_.candidates.first(found.count))
            unit_ = std::max(unit_, each.value);
    }
    if (unit_ == kNothing) return std::nullopt;
    const MassQuery query = {row_, request_.mask, unit_, scale_};
    const double raw = total_weight(query, workspace_.weighed);
    const double error = raw * kWeightError + kMassError;
    if (adjust_.changes_nothing(on_)) return Known{raw, error};
    const auto change = weigh_changes();
    return change ? std::optional(Known{raw + *change, error}) : std::nullopt;
}

// The mass of what is no survivor, in units of the heaviest survivor.
std::optional<TotalMass> MassSearch::outside_of(const Survivors& survivors, const Known& total) const {
    constexpr double kMostUnits = 1e5;
    const double best = survivors.weigher().maximum;
    const double unit = best <= unit_ ? 1.0 / raw_weigher().weight(best) : kMostUnits;
    if (!(unit < kMostUnits)) return std::nullopt;
    const double error = total.error * unit + kMassError;
    const double inside = static_cast<double>(survivors.total()) / kMassUnit;
    const double outside = total.weight * unit - inside;
    return TotalMass{whole(std::max(0.0, outside - error)), whole(std::max(0.0, outside + error))};
}

std::optional<Survivors> MassSearch::filter(Chain& chain) {
    constexpr std::uint32_t kFirstBlocks = 48;
    if (!adjust_.lowers_only(on_)) return std::nullopt;
    const auto total = weigh_row();
    if (!total) return std::nullopt;
    const std::span<const float> block_max = workspace_.block_max.first(row_.blocks);
    for (std::uint32_t wanted = kFirstBlocks; wanted < row_.blocks; wanted *= 4) {
        const float floor = floor_for_blocks(block_max, wanted);
        const Gathered found = search_.at_least(floor, on_);
        if (found.count == 0) continue;
        Survivors survivors(workspace_, found.count);
        survivors.drop_below(static_cast<double>(floor));
        if (survivors.classes().empty()) continue;
        survivors.weigh(scale_);
        const auto outside = outside_of(survivors, *total);
        if (!outside) return std::nullopt;
        if (chain.apply(survivors, on_, *outside)) {
            workspace_.answer_space.path = Path::mass;
            return survivors;
        }
    }
    return std::nullopt;
}

}  // namespace croupier::sampler
