// The tokens that a request's adjustments may change, each once: beside them a row stands as it was written.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Calls visit(token) for each, in no particular order.
template <class Visit>
void visit_changed_once(const Adjuster& adjust, Adjustments on, Workspace& workspace, Visit visit) {
    adjust.visit_changed(on, [&](std::uint32_t token) {
        std::uint64_t& listed = workspace.listed[token / 64];
        const std::uint64_t bit = std::uint64_t{1} << (token % 64);
        if ((listed & bit) != 0) return;
        listed |= bit;
        visit(token);
    });
    adjust.visit_changed(on, [&](std::uint32_t token) { workspace.listed[token / 64] = 0; });
}

// Those that end above where they stood, adjusted, into `room`, which is for all tokens.
inline std::span<const Candidate> list_raised(const Adjuster& adjust, Adjustments on, const BlockedRow& row,
                                              Workspace& workspace, std::span<Candidate> room) {
    Adjustments raising = on;
    raising.penalties = !adjust.lowers_only(on);
    if (!raising.penalties && !adjust.has_raising_bias()) return {};
    std::uint32_t count = 0;
    visit_changed_once(adjust, raising, workspace, [&](std::uint32_t token) {
        const float raw = row.value_at(token);
        const double adjusted = adjust(token, raw, on);
        if (adjusted > static_cast<double>(raw)) room[count++] = {adjusted, token};
    });
    return room.first(count);
}

}  // namespace croupier::sampler
