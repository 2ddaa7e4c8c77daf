// What a decision of a daemon and one of this process answer alike.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "python/extension/step.h"

namespace croupier::python {

// `Answered` has the C struct as `plain`, and copies of its arrays as `best` and `support`.
template <typename Answered>
void bind_answered(nb::class_<Answered>& bound) {
    bound
        .def_prop_ro(
            "token", [](const Answered& self) { return self.plain.token; }, "-1 where error is not 0")
        .def_prop_ro(
            "logprob", [](const Answered& self) { return self.plain.logprob; }, "NaN with Params.no_logprob")
        .def_prop_ro(
            "rank", [](const Answered& self) { return self.plain.rank; },
            "the token's, from 1; 0 where no log-probs were asked for")
        .def_prop_ro(
            "output_index", [](const Answered& self) { return self.plain.output_index; },
            "the token's place in the output")
        .def_prop_ro(
            "flags", [](const Answered& self) { return self.plain.flags; },
            "the sum of CROUPIER_STOPPED_EOS and what follows it in croupier/types.h")
        .def_prop_ro(
            "error", [](const Answered& self) { return self.plain.error; },
            "0, or why there is no token: CROUPIER_DECISION_... in croupier/types.h")
        .def_prop_ro(
            "best", [](const Answered& self) { return best_list(self.best); },
            nb::for_getter(nb::sig("def best(self) -> list[tuple[int, float, int]]")),
            "the best log-probs as (token, logprob, rank), as many as Params.logprobs asked for")
        .def_prop_ro(
            "support", [](const Answered& self) { return support_list(self.support); },
            nb::for_getter(nb::sig("def support(self) -> list[tuple[int, float]]")),
            "what the token was drawn from as (token, probability), the likeliest first: as many as "
            "Params.support asked for; all, where decide() was asked with wants_support")
        .def_prop_ro(
            "support_total", [](const Answered& self) { return self.plain.support_total; },
            "how many tokens were left to draw from; 0 where none were asked for")
        .def_prop_ro(
            "stopped", [](const Answered& self) { return stopped_by(self.plain.flags); },
            nb::for_getter(nb::sig("def stopped(self) -> str | None")),
            "what ended the sequence: None, 'eos', 'token', 'length', 'loop', 'stop_string' or 'json'");
}

}  // namespace croupier::python
