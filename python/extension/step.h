// What a decision answers, as copies: nothing here points into a session.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "croupier/client.h"

namespace croupier::python {

namespace nb = nanobind;

struct Decision {
    croupier_decision plain{};  // whose arrays are null
    std::vector<croupier_logprob> best;
    std::vector<croupier_survivor> support;
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
// As (token, probability).
nb::list support_list(const std::vector<croupier_survivor>& support);

void bind_steps(nb::module_& module);

}  // namespace croupier::python
