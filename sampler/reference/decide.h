// The decision as docs/semantics.md says it, step by step: double precision, whole vectors, nothing clever.
// The oracle of the fast path (sampler/decide.h), and what `croupier explain` gives an account of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/decision.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::sampler::reference {

struct StepAccount {
    std::string step;  // its name in docs/semantics.md
    std::uint32_t tokens_left = 0;
    double mass_left = 0.0;  // share of the mass before the step, at the step's temperature
    std::string did;         // what was changed or dropped, with the threshold that decided it
};

struct Outcome {
    proto::Decision decision;
    proto::Feedback feedback;             // for the sequence's next decision
    std::vector<Survivor> support;        // in canonical order, as many as the request wants
    std::uint32_t support_total = 0;      // how many there are, when it wants some
    std::vector<RankedLogprob> logprobs;  // the drawn token, then the best
    std::vector<StepAccount> account;     // when the request wants the support
};

Outcome decide(const RowView& row, const Request& request);

}  // namespace croupier::sampler::reference
