// What a decision answers, as copies: nothing here points into a session.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
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
    // Not copied: the decisions point into the arrays below, which a move takes along.
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    Step(Step&&) = default;
    Step& operator=(Step&&) = default;
    ~Step() = default;

    std::uint64_t step;
    std::uint16_t refused;
    std::vector<croupier_decision> decisions;  // whose arrays are parts of these two
    std::vector<croupier_logprob> best;
    std::vector<croupier_survivor> support;
};

// In memory of its own. `format` is of Python's struct module.
template <typename Value>
nb::object view_of(const std::vector<Value>& values, const char* format) {
    const nb::object bytes =
        nb::steal(PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                                static_cast<Py_ssize_t>(values.size() * sizeof(Value))));
    if (!bytes.is_valid()) throw nb::python_error();
    return nb::module_::import_("builtins").attr("memoryview")(bytes).attr("cast")(format);
}

// None, "eos", "token" or "length".
nb::object stopped_by(std::uint16_t flags);
// As (token, log-prob, rank).
nb::list best_list(const std::vector<croupier_logprob>& best);
// As (token, probability).
nb::list support_list(const std::vector<croupier_survivor>& support);

void bind_steps(nb::module_& module);

}  // namespace croupier::python
