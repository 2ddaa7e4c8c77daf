// The tokens that a request's adjustments may change, each once: beside them a row stands as it was written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// They call visit(token, value, adjusted) for each, in no particular order: the row's value, and what all
// adjustments of `on` make of it. But for those of which leave(token) says that they need not be read.
struct LeaveNone {
    bool operator()(std::uint32_t /*token*/) const { return false; }
};

// Of those with a rule of their own.
template <class Visit, class Leave = LeaveNone>
void visit_special_once(const Adjuster& adjust, Adjustments on, const BlockedRow& row, Workspace& workspace,
                        Visit visit, Leave leave = {}) {
    adjust.visit_special([&](std::uint32_t token) {
        std::uint64_t& listed = workspace.listed[token / 64];
        const std::uint64_t bit = std::uint64_t{1} << (token % 64);
        if ((listed & bit) != 0) return;
        listed |= bit;
        if (leave(token)) return;
        const float value = row.value_at(token);
        visit(token, value, adjust(token, value, on));
    });
    adjust.visit_special([&](std::uint32_t token) { workspace.listed[token / 64] = 0; });
}

// Of the others that are penalised. Values lie anywhere: they are asked for while others are looked at.
template <class Visit>
void visit_penalised_once(const Adjuster& adjust, const BlockedRow& row, Visit visit) {
    constexpr std::size_t kAhead = 16;
    const auto counted = adjust.state().distinct();
    for (std::size_t i = 0; i < counted.size(); ++i) {
        if (i + kAhead < counted.size()) __builtin_prefetch(row.element_ahead(counted[i + kAhead].token));
        const std::uint32_t token = counted[i].token;
        if (adjust.is_special(token)) continue;
        const float value = row.value_at(token);
        visit(token, value, adjust.penalised_alone(counted[i], value));
    }
}

template <class Visit>
void visit_changed_once(const Adjuster& adjust, Adjustments on, const BlockedRow& row, Workspace& workspace,
                        Visit visit) {
    visit_special_once(adjust, on, row, workspace, visit);
    if (adjust.penalises(on)) visit_penalised_once(adjust, row, visit);
}

// Those that end above where they stood, adjusted, into `room`, which is for all tokens.
inline std::span<const Candidate> list_raised(const Adjuster& adjust, Adjustments on, const BlockedRow& row,
                                              Workspace& workspace, std::span<Candidate> room) {
    std::uint32_t count = 0;
    const auto list = [&](std::uint32_t token, float raw, double adjusted) {
        if (adjusted > static_cast<double>(raw)) room[count++] = {adjusted, token};
    };
    const bool penalties_raise = !adjust.lowers_only(on);
    // Tokens that cannot end above where they stood are not read: of a row that is there in part, their
    // blocks would be asked for.
    const auto leave = [&](std::uint32_t token) { return !penalties_raise && !adjust.may_lift(token); };
    if (penalties_raise || adjust.has_raising_bias())
        visit_special_once(adjust, on, row, workspace, list, leave);
    if (penalties_raise) visit_penalised_once(adjust, row, list);
    return room.first(count);
}

// The same of a row that is there in part where penalties raise tokens: a long history would ask for most of
// the row, of which little matters.
struct RaisedInPart {
    std::span<Candidate> known;    // as above, but for some that end where nothing looks for them
    std::span<Candidate> unknown;  // each with the most that it may end at
};
// `passes_over(most)`: whether nothing looks for a token that ends at `most` or below. `take(value)` hears of
// each known one.
template <class PassesOver, class Take>
RaisedInPart list_raised_in_part(const Adjuster& adjust, Adjustments on, const BlockedRow& row,
                                 Workspace& workspace, std::span<Candidate> room, PassesOver passes_over,
                                 Take take) {
    std::size_t known = 0;
    std::size_t unknown_from = room.size();
    const auto list = [&](std::uint32_t token, float raw, double adjusted) {
        if (!(adjusted > static_cast<double>(raw))) return;
        room[known++] = {adjusted, token};
        take(adjusted);
    };
    visit_special_once(adjust, on, row, workspace, list);
    const auto counted = adjust.state().distinct();
    row.lean->note_listed(counted.size());
    for (const TokenCounts::Counted& each : counted) {
        // From a larger value penalties leave a larger one.
        const float highest = workspace.block_max[each.token / kBlock];
        const double most = adjust.penalised_alone(each, highest);
        const bool is_nothing = most == -std::numeric_limits<double>::infinity();
        if (is_nothing || passes_over(most) || adjust.is_special(each.token)) continue;
        if (const auto value = row.value_if_there(each.token)) {
            list(each.token, *value, adjust.penalised_alone(each, *value));
        } else {
            room[--unknown_from] = {most, each.token};
        }
    }
    return {room.first(known), room.subspan(unknown_from)};
}

inline void ask_for(const BlockedRow& row, std::span<const Candidate> unknown) {
    for (const Candidate& each : unknown) (void)row.block(each.token / kBlock);
}

// Asks for the blocks of those that may end highest: once they are known, most of the others do not matter.
inline void ask_for_highest(const BlockedRow& row, std::span<Candidate> unknown) {
    const std::size_t most = row.lean->most_asked_at_once();
    if (unknown.size() > most) {
        std::nth_element(unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(most), unknown.end(),
                         [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
        unknown = unknown.first(most);
    }
    ask_for(row, unknown);
}

}  // namespace croupier::sampler
