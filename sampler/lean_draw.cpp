#include "sampler/lean_draw.h"

#include <algorithm>
#include <cmath>

#include "proto/plain_draw.h"
#include "sampler/lean_row.h"
#include "sampler/race_key.h"
#include "sampler/slice_column.h"

namespace croupier::sampler {
namespace {

using proto::race::Draw;

proto::RequestRules rules_of(const proto::SamplingParams& params, const Request& request) {
    const bool bans_stops = request.output.size() < params.min_tokens;
    return {!request.allowed_ids.empty() || !request.mask.empty(),
            !request.bias.empty() || !request.bad_words.empty() || bans_stops};
}

// The writer read the parameters by itself, perhaps while they were another request's.
bool is_of(const Draw& draw, const proto::race::Key& key, float temperature) {
    return draw.key == key && draw.temperature == temperature;
}

bool is_within(const Draw& draw, const SliceColumn& slice) {
    return draw.token >= slice.first_id() && draw.token < slice.end() && !std::isnan(draw.score);
}

// A rank's winner that does not win is one of the others.
Draw joined(const Draw& a, const Draw& b) {
    const Draw& winner = a.beats(b) ? a : b;
    const Draw& loser = a.beats(b) ? b : a;
    Draw both = winner;
    both.rival = std::max({a.rival, b.rival, loser.score});
    return both;
}

}  // namespace

std::optional<Draw> winner_as_it_stands(const RowView& view, const proto::race::Key& key,
                                        float temperature) noexcept {
    if (!is_lean(view)) return std::nullopt;
    std::optional<Draw> best;
    bool all_drew = true;
    each_slice(view, [&](const SliceColumn& slice, const Slice& of) {
        const auto& draw = of.lean->draw;
        all_drew = all_drew && draw && is_of(*draw, key, temperature) && is_within(*draw, slice);
        if (all_drew) best = best ? joined(*best, *draw) : *draw;
    });
    return all_drew ? best : std::nullopt;
}

std::optional<std::uint32_t> drawn_token(const RowView& view, const proto::SamplingParams& params,
                                         const Request& request) noexcept {
    const bool plain = proto::draws_plainly(params, rules_of(params, request), view.vocab);
    if (!plain || request.wants_support) return std::nullopt;
    const auto winner = winner_as_it_stands(view, race_key(params, request), proto::race_temperature(params));
    if (!winner) return std::nullopt;
    return winner->token;
}

}  // namespace croupier::sampler
