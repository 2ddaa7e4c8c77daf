// What a decision answers, as copies: nothing here points into a session.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "croupier/client.h"

namespace croupier::python {

namespace nb = nanobind;

struct Decision {
    croupier_decision plain{};  // whose `best` is null
    std::vector<croupier_logprob> best;
};

struct Step {
    explicit Step(const croupier_step& plain);

    std::uint64_t step;
    std::uint16_t refused;
    std::vector<Decision> decisions;
};

// None, "eos", "token" or "length".
nb::object stopped_by(std::uint16_t flags);
// As (token, log-prob, rank).
nb::list best_list(const std::vector<croupier_logprob>& best);

void bind_steps(nb::module_& module);

}  // namespace croupier::python
