// What the writers that sent a part of a row say of the race among all of it.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/racers.h"
#include "request/plan.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::sampler {

// A request's race as it is before any adjustment: the best among all tokens as the row has them, each with
// its logit if its writer told it, else NaN; and the temperature it was run at.
struct StandingRace {
    proto::Racers racers;
    float temperature;
};
// Nothing: some writer drew none, or in another race.
std::optional<StandingRace> race_as_it_stands(const RowView& view, const request::Plan& plan,
                                              const Request& request) noexcept;

// The token that decide() finds in the whole row. Nothing: a writer drew none, or not by what the request
// asks for, or the request asks for more. Of a request and a view that were checked.
std::optional<std::uint32_t> drawn_token(const RowView& view, const request::Plan& plan,
                                         const Request& request) noexcept;

}  // namespace croupier::sampler
