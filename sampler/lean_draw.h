// What the writers of a partial row say about the race among all of its tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/racers.h"
#include "request/plan.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::sampler {

// A request's race before any adjustment: the best of all tokens as the row has them, each with its logit, or
// NaN if its writer did not tell it; and the race's temperature.
struct StandingRace {
    proto::Racers racers;
    float temperature;
};
// Nothing if a writer drew no winner, or drew it in another race.
std::optional<StandingRace> race_as_it_stands(const RowView& view, const request::Plan& plan,
                                              const Request& request) noexcept;

// The token that decide() would find in the whole row. Nothing if a writer drew none, or drew in another
// race, or if the request asks for more than a plain draw. The request and the view must have been checked.
std::optional<std::uint32_t> drawn_token(const RowView& view, const request::Plan& plan,
                                         const Request& request) noexcept;

}  // namespace croupier::sampler
