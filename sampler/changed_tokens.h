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

// In no particular order.
inline std::span<const std::uint32_t> list_changed_once(const Adjuster& adjust, Adjustments on,
                                                        Workspace& workspace) {
    std::uint32_t count = 0;
    adjust.visit_changed(on, [&](std::uint32_t token) {
        std::uint64_t& listed = workspace.listed[token / 64];
        const std::uint64_t bit = std::uint64_t{1} << (token % 64);
        if ((listed & bit) != 0) return;
        listed |= bit;
        workspace.changed_ids[count++] = token;
    });
    const auto tokens = workspace.changed_ids.first(count);
    for (const std::uint32_t token : tokens) workspace.listed[token / 64] = 0;
    return tokens;
}

// Calls visit(token, value) for each, the value being the row's. What is known of a token lies anywhere, its
// value too: both are asked for while others are looked at.
template <class Visit>
void visit_changed_once(const Adjuster& adjust, Adjustments on, const BlockedRow& row, Workspace& workspace,
                        Visit visit) {
    constexpr std::size_t kAhead = 16;
    const auto tokens = list_changed_once(adjust, on, workspace);
    const auto ask_for = [&](std::uint32_t token) {
        adjust.prefetch(token);
        __builtin_prefetch(row.element(token));
    };
    for (const std::uint32_t token : tokens.first(std::min(kAhead, tokens.size()))) ask_for(token);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i + kAhead < tokens.size()) ask_for(tokens[i + kAhead]);
        visit(tokens[i], row.value_at(tokens[i]));
    }
}

// Those that end above where they stood, adjusted, into `room`, which is for all tokens.
inline std::span<const Candidate> list_raised(const Adjuster& adjust, Adjustments on, const BlockedRow& row,
                                              Workspace& workspace, std::span<Candidate> room) {
    Adjustments raising = on;
    raising.penalties = !adjust.lowers_only(on);
    if (!raising.penalties && !adjust.has_raising_bias()) return {};
    std::uint32_t count = 0;
    visit_changed_once(adjust, raising, row, workspace, [&](std::uint32_t token, float raw) {
        const double adjusted = adjust(token, raw, on);
        if (adjusted > static_cast<double>(raw)) room[count++] = {adjusted, token};
    });
    return room.first(count);
}

}  // namespace croupier::sampler
