#include "sampler/mass_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Whole numbers are off by half of 2^-43 a token, and a vocabulary has at most 2^20.
constexpr double kMassError = 0x1p-24;

Mass whole(double weight) {
    return static_cast<Mass>(weight * kMassUnit);
}

// The groups of a row in order, as the sums of sampler/row_mass.h number them.
struct Group {
    const BlockRun* run;
    std::uint32_t first;  // block of the run
    std::uint32_t blocks;
};

std::uint32_t groups_of(const BlockRun& run) {
    return (run.blocks + kGroup - 1) / kGroup;
}

std::uint32_t group_count(const BlockedRow& row) {
    std::uint32_t count = 0;
    for (const BlockRun& run : row.runs) count += groups_of(run);
    return count;
}

Group group_at(const BlockedRow& row, std::uint32_t group) {
    for (const BlockRun& run : row.runs) {
        if (group < groups_of(run)) {
            const std::uint32_t first = group * kGroup;
            return {&run, first, std::min(kGroup, run.blocks - first)};
        }
        group -= groups_of(run);
    }
    return {&row.runs.back(), 0, 0};
}

}  // namespace

std::uint32_t MassSearch::group_of(std::uint32_t position) const {
    std::uint32_t before = 0;
    for (const BlockRun& run : row_.runs) {
        if (position - run.first_position < run.entries) {
            return before + (position - run.first_position) / (kGroup * kBlock);
        }
        before += groups_of(run);
    }
    return 0;
}

// Puts what the changed tokens weigh more or less into their groups. False: one outweighs the unit, or stands
// nowhere.
bool MassSearch::weigh_changes() {
    const Weigher weigh = raw_weigher();
    bool sound = true;
    adjust_.visit_changed(on_, [&](std::uint32_t token) {
        std::uint64_t& listed = workspace_.listed[token / 64];
        const std::uint64_t bit = std::uint64_t{1} << (token % 64);
        if ((listed & bit) != 0 || !sound) return;
        listed |= bit;
        const auto position = search_.order().position_of(static_cast<std::int32_t>(token));
        const float raw = position ? row_.value_at(*position) : 0.0F;
        const double adjusted = adjust_(token, raw, on_);
        sound = position && adjusted <= unit_;
        if (!sound || adjust_.masked(token)) return;
        workspace_.group_weight[group_of(*position)] +=
            weigh.weight(adjusted) - weigh.weight(static_cast<double>(raw));
    });
    adjust_.visit_changed(on_, [&](std::uint32_t token) { workspace_.listed[token / 64] = 0; });
    return sound;
}

std::optional<MassSearch::Known> MassSearch::weigh_row() {
    unit_ = static_cast<double>(largest_of(workspace_.block_max.first(row_.blocks)));
    if (!request_.mask.empty()) {
        Pruning best;
        best.top_k = 1;
        const Gathered found = search_.search(best);
        if (!found.sound || found.count == 0) return std::nullopt;
        unit_ = kNothing;
        for (const Candidate& each : workspace_.candidates.first(found.count))
            unit_ = std::max(unit_, each.value);
    }
    if (unit_ == kNothing) return std::nullopt;
    const double raw = total_weight(query(), workspace_);
    Known known = {raw, raw * kWeightError + kMassError};
    if (adjust_.changes_nothing(on_)) return known;
    if (!weigh_changes()) return std::nullopt;
    const std::uint32_t groups = group_count(row_);
    known.weight = 0.0;
    for (const double weight : workspace_.group_weight.first(groups)) known.weight += weight;
    return known;
}

std::optional<Candidate> MassSearch::draw() {
    workspace_.answer_space.path = Path::mass;
    const auto total = weigh_row();
    if (!total) return std::nullopt;
    if (const auto drawn = draw_bounded(*total)) return drawn;
    return adjust_.changes_nothing(on_) ? draw_exact() : std::nullopt;
}

std::optional<Candidate> MassSearch::draw_bounded(const Known& total) {
    const double target = (static_cast<double>(request_.random) + 0.5) * 0x1p-32 * total.weight;
    double before = 0.0;
    std::uint32_t group = 0;
    for (const BlockRun& run : row_.runs) {
        for (std::uint32_t i = 0; i < groups_of(run); ++i, ++group) {
            const double weight = workspace_.group_weight[group];
            if (before + weight > target) return find_in_group(group, before, target, 2.0 * total.error);
            before += weight;
        }
    }
    return std::nullopt;
}

// The first token of the group, in vocabulary order, that `passes`, which is asked of one after another.
template <typename Passes>
std::optional<Candidate> MassSearch::first_in_group(std::uint32_t group, Passes passes) const {
    const Group at = group_at(row_, group);
    const std::uint32_t end = std::min((at.first + at.blocks) * kBlock, at.run->entries);
    for (std::uint32_t i = at.first * kBlock; i < end; ++i) {
        const std::uint32_t position = at.run->first_position + i;
        const auto token = search_.order().token_at(position);
        if (!token) return std::nullopt;
        const double value = adjust_(*token, row_.value_in(*at.run, i), on_);
        if (passes(value)) return Candidate{value, *token, position};
    }
    return std::nullopt;
}

// The token at which the running weight passes the target, if it does so further away than the error.
std::optional<Candidate> MassSearch::find_in_group(std::uint32_t group, double before, double target,
                                                   double error) const {
    const Weigher weigh = raw_weigher();
    double after = before;
    const auto found = first_in_group(group, [&](double value) {
        before = after;
        after += weigh.weight(value);
        return after > target;
    });
    const bool certain = before + error < target && after - error > target;
    return certain ? found : std::nullopt;
}

std::optional<Candidate> MassSearch::draw_exact() {
    const Mass target = draw_target(request_.random, total_mass(query(), workspace_));
    Mass before = 0;
    std::uint32_t group = 0;
    const std::uint32_t groups = group_count(row_);
    while (group < groups && before + workspace_.group_mass[group] <= target) {
        before += workspace_.group_mass[group++];
    }
    const Weigher weigh = raw_weigher();
    return first_in_group(group, [&](double value) {
        before += weigh.mass(value);
        return before > target;
    });
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

std::optional<Survivors> MassSearch::filter(Chain& chain, std::uint32_t most_blocks) {
    constexpr std::uint32_t kFirstBlocks = 48;
    if (!adjust_.lowers_only(on_)) return std::nullopt;
    const auto total = weigh_row();
    if (!total) return std::nullopt;
    const std::span<const float> block_max = workspace_.block_max.first(row_.blocks);
    for (std::uint32_t wanted = kFirstBlocks; wanted < std::min(row_.blocks, most_blocks); wanted *= 4) {
        const float floor = floor_for_blocks(block_max, wanted);
        const Gathered found = search_.at_least(floor, on_);
        if (!found.sound) return std::nullopt;
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
