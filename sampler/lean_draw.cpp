#include "sampler/lean_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sampler/lean_row.h"
#include "sampler/slice_column.h"

namespace croupier::sampler {
namespace {

using proto::Racer;
using proto::Racers;
using proto::race::Draw;

// The writer read the parameters on its own, perhaps while they were another request's.
bool is_of(const Draw& draw, const proto::race::Key& key, float temperature) {
    return draw.key == key && draw.temperature == temperature;
}

bool is_within(const Racers& racers, const SliceColumn& slice) {
    const auto all = racers.all();
    return !std::isnan(racers.rival) && std::all_of(all.begin(), all.end(), [&](const Racer& each) {
        return each.token >= slice.first_id() && each.token < slice.end() && !std::isnan(each.score);
    });
}

// What a rank's writer says about its race: its racers, or the winner alone.
std::optional<Racers> racers_of(const LeanColumn& lean, const SliceColumn& slice) {
    constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
    Racers racers{};
    if (lean.racers) {
        racers = *lean.racers;
    } else {
        racers.best[0] = {lean.draw->token, lean.draw->score, kUnknown, kUnknown};
        racers.rival = lean.draw->rival;
        racers.count = 1;
    }
    return !racers.all().empty() && is_within(racers, slice) ? std::optional(racers) : std::nullopt;
}

// Racers for which there is no room among the best count towards the rival's score.
Racers joined(const Racers& a, const Racers& b) {
    std::array<Racer, std::size_t{2} * proto::kMostRacers> all;
    const auto of_a = a.all();
    const auto of_b = b.all();
    const auto end = std::merge(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), all.begin(),
                                [](const Racer& one, const Racer& other) { return one.beats(other); });
    Racers both{};
    both.count = std::min(a.count + b.count, std::uint32_t{proto::kMostRacers});
    both.rival = std::max(a.rival, b.rival);
    std::copy_n(all.begin(), both.count, both.best);
    if (all.begin() + both.count != end) both.rival = std::max(both.rival, all[both.count].score);
    return both;
}

}  // namespace

std::optional<StandingRace> race_as_it_stands(const RowView& view, const request::Plan& plan,
                                              const Request& request) noexcept {
    if (!is_lean(view)) return std::nullopt;
    std::optional<Racers> best;
    bool all_drew = true;
    each_slice(view, [&](const SliceColumn& slice, const Slice& of) {
        const LeanColumn& lean = *of.lean;
        all_drew = all_drew && lean.masked == !request.mask.empty();
        if (all_drew && lean.holds_nothing) return;
        all_drew = all_drew && lean.draw && is_of(*lean.draw, plan.key, plan.temperature);
        const auto own = all_drew ? racers_of(lean, slice) : std::nullopt;
        all_drew = own.has_value();
        if (all_drew) best = best ? joined(*best, *own) : *own;
    });
    return all_drew && best ? std::optional(StandingRace{*best, plan.temperature}) : std::nullopt;
}

std::optional<std::uint32_t> drawn_token(const RowView& view, const request::Plan& plan,
                                         const Request& request) noexcept {
    if (!plan.draws_plainly) return std::nullopt;
    const auto race = race_as_it_stands(view, plan, request);
    return race ? std::optional(race->racers.best[0].token) : std::nullopt;
}

}  // namespace croupier::sampler
