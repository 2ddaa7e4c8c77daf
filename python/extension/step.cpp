#include "python/extension/step.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "python/extension/answered.h"
#include "python/extension/step_rows.h"

namespace croupier::python {
namespace {

// As an object of its own, whose arrays are null.
Decision copy_of(const croupier_decision& decision) {
    Decision copy{decision,
                  {decision.best, decision.best + decision.best_count},
                  {decision.support, decision.support + decision.support_count}};
    copy.plain.best = nullptr;
    copy.plain.support = nullptr;
    return copy;
}

// Where one of these flags has stopped it.
template <typename Value>
nb::object stop_value(const Decision& decision, unsigned flags, Value value) {
    if ((decision.plain.flags & flags) == 0) return nb::none();
    return nb::int_(value);
}

// Of one value a column.
template <typename Value, typename Read>
nb::object column_view(const Step& step, const char* format, const Read& read) {
    std::vector<Value> values;
    values.reserve(step.decisions.size());
    for (const croupier_decision& decision : step.decisions) values.push_back(read(decision));
    return view_of(values, format);
}

std::string describe(const Decision& decision) {
    const croupier_decision& plain = decision.plain;
    std::string text = "Decision(uid=" + std::to_string(plain.uid) + ", token=" + std::to_string(plain.token);
    if (plain.error != 0) text += std::string(", error: ") + croupier_decision_error_text(plain.error);
    const nb::object stopped = stopped_by(plain.flags);
    if (!stopped.is_none()) text += std::string(", stopped by ") + nb::cast<std::string>(stopped);
    return text + ")";
}

nb::list decision_list(const Step& step) {
    nb::list all;
    for (const croupier_decision& decision : step.decisions) all.append(copy_of(decision));
    return all;
}

// types.h names the values, and no type.
enum class DecisionError : std::uint16_t {};

void bind_decision_errors(nb::module_& module) {
    nb::enum_<DecisionError> errors(module, "DecisionError", nb::is_arithmetic(),
                                    "Why a column has no token: what Decision.error is compared with.");
    const auto name = [&errors](const char* as, std::uint16_t error) {
        errors.value(as, static_cast<DecisionError>(error), croupier_decision_error_text(error));
    };
    name("FINE", CROUPIER_DECISION_FINE);
    name("NAN_LOGIT", CROUPIER_DECISION_NAN_LOGIT);
    name("INFINITE_LOGIT", CROUPIER_DECISION_INFINITE_LOGIT);
    name("NO_TOKEN_LEFT", CROUPIER_DECISION_NO_TOKEN_LEFT);
    name("BAD_PARAMETER", CROUPIER_DECISION_BAD_PARAMETER);
    name("BAD_TOKEN", CROUPIER_DECISION_BAD_TOKEN);
    name("BAD_SEQUENCE", CROUPIER_DECISION_BAD_SEQUENCE);
    name("BAD_POSITION", CROUPIER_DECISION_BAD_POSITION);
    name("BAD_MASK", CROUPIER_DECISION_BAD_MASK);
    name("SEQUENCE_FULL", CROUPIER_DECISION_SEQUENCE_FULL);
    name("BAD_RECORD", CROUPIER_DECISION_BAD_RECORD);
    name("SAMPLER_CRASHED", CROUPIER_DECISION_SAMPLER_CRASHED);
    name("GIVEN_UP", CROUPIER_DECISION_GIVEN_UP);
    name("VOID", CROUPIER_DECISION_VOID);
    name("NO_MEMORY", CROUPIER_DECISION_NO_MEMORY);
    name("REJECTED", CROUPIER_DECISION_REJECTED);
    name("BAD_INPUT", CROUPIER_DECISION_BAD_INPUT);
}

void bind_decision(nb::module_& module) {
    nb::class_<Decision> decision(module, "Decision", "One column's decision.");
    bind_answered(decision);
    decision
        .def_prop_ro(
            "uid", [](const Decision& self) { return self.plain.uid; },
            "the sequence that it was decided for")
        .def_prop_ro(
            "text_bytes", [](const Decision& self) { return self.plain.text_bytes; },
            "bytes of the sequence's text that are released after the token; 0 without a tokenizer")
        .def_prop_ro(
            "stop_string",
            [](const Decision& self) {
                return stop_value(self, CROUPIER_STOPPED_STRING, self.plain.stop_string);
            },
            nb::for_getter(nb::sig("def stop_string(self) -> int | None")),
            "which of the request's stop strings ended the sequence; None: none did")
        .def_prop_ro(
            "stop_begin",
            [](const Decision& self) {
                return stop_value(self, CROUPIER_STOPPED_STRING | CROUPIER_STOPPED_JSON,
                                  self.plain.stop_begin);
            },
            nb::for_getter(nb::sig("def stop_begin(self) -> int | None")),
            "the byte of the text at which the stop string or the JSON value begins that ended the sequence")
        .def_prop_ro(
            "error_text", [](const Decision& self) { return croupier_decision_error_text(self.plain.error); },
            "the error in words")
        .def("__repr__", &describe);
}

}  // namespace

Step::Step(const croupier_step& plain) : step(plain.step), refused(plain.refused) {
    decisions.reserve(plain.count);
    for (std::size_t row = 0; row < plain.count; ++row) {
        const croupier_decision& decision = decisions.emplace_back(croupier_step_decision(&plain, row));
        best.insert(best.end(), decision.best, decision.best + decision.best_count);
        support.insert(support.end(), decision.support, decision.support + decision.support_count);
    }
    // Now that the arrays grow no more.
    const croupier_logprob* next_best = best.data();
    const croupier_survivor* next_survivor = support.data();
    for (croupier_decision& decision : decisions) {
        decision.best = std::exchange(next_best, next_best + decision.best_count);
        decision.support = std::exchange(next_survivor, next_survivor + decision.support_count);
    }
}

nb::object stopped_by(std::uint16_t flags) {
    if ((flags & CROUPIER_STOPPED_EOS) != 0) return nb::str("eos");
    if ((flags & CROUPIER_STOPPED_TOKEN) != 0) return nb::str("token");
    if ((flags & CROUPIER_STOPPED_LENGTH) != 0) return nb::str("length");
    if ((flags & CROUPIER_STOPPED_STRING) != 0) return nb::str("stop_string");
    if ((flags & CROUPIER_STOPPED_LOOP) != 0) return nb::str("loop");
    if ((flags & CROUPIER_STOPPED_JSON) != 0) return nb::str("json");
    return nb::none();
}

nb::list best_list(const std::vector<croupier_logprob>& best) {
    nb::list all;
    for (const croupier_logprob& each : best) all.append(nb::make_tuple(each.token, each.logprob, each.rank));
    return all;
}

nb::list support_list(const std::vector<croupier_survivor>& support) {
    nb::list all;
    for (const croupier_survivor& each : support) all.append(nb::make_tuple(each.token, each.probability));
    return all;
}

void bind_steps(nb::module_& module) {
    bind_decision_errors(module);
    bind_decision(module);
    nb::class_<Step> step(module, "Step",
                          "A decided step. Its views of all columns are memoryviews in memory of their own, "
                          "of which numpy.asarray() makes arrays without a copy.");
    bind_step_rows(step);
    step.def_ro("step", &Step::step, "its number, as Session.submit() gave it")
        .def_ro("refused", &Step::refused, "0, or the decision error with which the whole step was refused")
        .def_prop_ro("decisions", &decision_list,
                     nb::for_getter(nb::sig("def decisions(self) -> list[Decision]")),
                     "one for each column, in the order of submit()")
        .def_prop_ro(
            "tokens",
            [](const Step& self) {
                return column_view<std::int32_t>(self, "i", [](const auto& of) { return of.token; });
            },
            nb::for_getter(nb::sig("def tokens(self) -> memoryview")),
            "int32, -1 where a decision is an error")
        .def_prop_ro(
            "uids",
            [](const Step& self) {
                return column_view<std::uint64_t>(self, "Q", [](const auto& of) { return of.uid; });
            },
            nb::for_getter(nb::sig("def uids(self) -> memoryview")), "uint64")
        .def_prop_ro(
            "logprobs",
            [](const Step& self) {
                return column_view<float>(self, "f", [](const auto& of) { return of.logprob; });
            },
            nb::for_getter(nb::sig("def logprobs(self) -> memoryview")), "float32")
        .def_prop_ro(
            "flags",
            [](const Step& self) {
                return column_view<std::uint16_t>(self, "H", [](const auto& of) { return of.flags; });
            },
            nb::for_getter(nb::sig("def flags(self) -> memoryview")), "uint16")
        .def_prop_ro(
            "errors",
            [](const Step& self) {
                return column_view<std::uint16_t>(self, "H", [](const auto& of) { return of.error; });
            },
            nb::for_getter(nb::sig("def errors(self) -> memoryview")), "uint16, 0 where there is a token")
        .def("__len__", [](const Step& self) { return self.decisions.size(); })
        .def("__repr__", [](const Step& self) {
            std::string text = "Step(step=" + std::to_string(self.step) +
                               ", columns=" + std::to_string(self.decisions.size());
            if (self.refused != 0) {
                text += std::string(", refused='") + croupier_decision_error_text(self.refused) + "'";
            }
            return text + ")";
        });
}

}  // namespace croupier::python
