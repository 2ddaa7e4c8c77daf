#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "croupier/decide.h"
#include "python/extension/answered.h"
#include "python/extension/array.h"
#include "python/extension/bindings.h"
#include "python/extension/held.h"
#include "python/extension/numbers.h"
#include "python/extension/request.h"
#include "python/extension/step.h"

namespace croupier::python {
namespace {

struct Answer {
    croupier_answer plain{};  // whose arrays are null
    std::vector<croupier_logprob> best;
    std::vector<croupier_survivor> support;
    std::uint64_t seed = 0;
};

Answer copy_of(const croupier_answer& answer, std::uint64_t seed) {
    Answer copy{answer,
                {answer.best, answer.best + answer.best_count},
                {answer.support, answer.support + answer.support_count},
                seed};
    copy.plain.best = nullptr;
    copy.plain.support = nullptr;
    return copy;
}

std::uint32_t dtype_of_row(const Array& row) {
    if (row.type() == kFloat32) return CROUPIER_FP32;
    if (row.type() == kFloat16) return CROUPIER_FP16;
    if (row.type() == kBfloat16 || row.type() == kUint16) return CROUPIER_BF16;
    throw bad_argument("the elements of logits are " + name_of(row.type()) +
                       "; allowed: float32, float16, bfloat16 by DLPack, or its bits as uint16");
}

double part_of_feedback(nb::handle feedback, std::size_t index) {
    std::optional<double> part;
    if (nb::isinstance<nb::sequence>(feedback) && nb::len(feedback) == 2)
        part = number_of<double>(nb::object(feedback[index]));
    if (!part) {
        throw bad_argument("feedback is " + shown(feedback) +
                           "; allowed: a pair of numbers, such as the feedback of the answer before");
    }
    return *part;
}

// The arguments of decide() that are of the row, not of the request.
struct RowArguments {
    nb::handle logits, mask, wants_support, feedback;
};

class Decider {
  public:
    Decider(nb::handle vocab, nb::handle max_length) : vocab_(limit("vocab", vocab)) {
        croupier_decider_options options;
        croupier_decider_options_init(&options);
        options.vocab = vocab_;
        options.max_length = max_length_ = limit("max_length", max_length);
        const nb::gil_scoped_release released;
        croupier_decider* decider = nullptr;
        checked([&](croupier_error* error) { return croupier_decider_open(&options, &decider, error); });
        held_.emplace("decider", decider);
    }
    Decider(const Decider&) = delete;
    Decider& operator=(const Decider&) = delete;
    ~Decider() {
        if (held_) held_->let_go(croupier_decider_close);
    }

    std::uint32_t vocab() const { return vocab_; }
    std::uint32_t max_length() const { return max_length_; }

    Answer decide(const RowArguments& given, const RequestArguments& arguments) {
        const Array logits(given.logits, "logits");
        logits.require_host();
        logits.require_dimensions(1, "a row");
        if (logits.length(0) != vocab_) {
            throw bad_argument("the shape of logits is " + logits.shape_text() + "; allowed: (" +
                               std::to_string(vocab_) + ",), the decider's vocabulary");
        }
        logits.require_contiguous();
        std::optional<Array> mask;
        croupier_row row;
        croupier_row_init(&row);
        row.logits = logits.data();
        row.dtype = dtype_of_row(logits);
        if (!given.mask.is_none()) {
            mask.emplace(given.mask, "mask");
            row.mask = mask->mask_words((std::size_t{vocab_} + 31) / 32);
        }
        row.wants_support = nb::cast<bool>(given.wants_support) ? 1 : 0;
        row.feedback_level = part_of_feedback(given.feedback, 0);
        row.feedback_weight = part_of_feedback(given.feedback, 1);
        const Request request(0, arguments);
        return held_->use([&](croupier_decider* decider) {
            const croupier_sequence sequence = request.sequence();
            croupier_answer answer;
            croupier_answer_init(&answer);
            checked([&](croupier_error* error) {
                return croupier_decide(decider, &row, &sequence, &answer, error);
            });
            return copy_of(answer, request.seed());
        });
    }

  private:
    static std::uint32_t limit(const char* name, nb::handle value) {
        const auto number = number_of<std::uint32_t>(value);
        if (!number)
            throw bad_argument(std::string(name) + " is " + shown(value) + "; allowed: a whole number");
        return *number;
    }

    std::uint32_t vocab_, max_length_ = 0;
    std::optional<Held<croupier_decider>> held_;
};

void bind_answer(nb::module_& module) {
    nb::class_<Answer> answer(module, "Answer", "What a decision in this process answers.");
    bind_answered(answer);
    answer
        .def_prop_ro(
            "error_text",
            [](const Answer& self) { return croupier_decide_decision_error_text(self.plain.error); },
            "the error in words")
        .def_prop_ro(
            "feedback",
            [](const Answer& self) {
                return std::pair(self.plain.feedback_level, self.plain.feedback_weight);
            },
            nb::for_getter(nb::sig("def feedback(self) -> tuple[float, float]")),
            "what mirostat and adaptive-p leave for the next position")
        .def_ro("seed", &Answer::seed, "that of Params, or the random one that was drawn where it is None")
        .def("__repr__", [](const Answer& self) {
            const std::uint16_t error = self.plain.error;
            return "Answer(token=" + std::to_string(self.plain.token) + (error == 0 ? "" : ", error: ") +
                   (error == 0 ? "" : croupier_decide_decision_error_text(error)) + ")";
        });
}

}  // namespace

void bind_decider(nb::module_& module) {
    bind_answer(module);
    module.def(
        "row_length",
        [](nb::handle logits) {
            const Array row(logits, "logits");
            row.require_dimensions(1, "a row");
            return row.length(0);
        },
        nb::arg("logits").none(), "Of a row of logits: the vocabulary that it is of.");
    nb::class_<Decider>(
        module, "Decider",
        "Decides rows in this process, to the tokens that a daemon decides. It keeps what it "
        "derived from a history, so that the request's next position costs its new tokens only.")
        .def(nb::init<nb::handle, nb::handle>(), nb::arg("vocab").none(), nb::kw_only(),
             nb::arg("max_length").none() = 8192,
             nb::sig("def __init__(self, vocab: int, *, max_length: int = 8192) -> None"))
        .def_prop_ro("vocab", &Decider::vocab, "the length of its rows")
        .def_prop_ro("max_length", &Decider::max_length, "tokens of prompt and output together")
        .def(
            "decide",
            [](Decider& self, nb::handle logits, nb::handle prompt, nb::handle output, nb::handle params,
               nb::handle bias, nb::handle stop_ids, nb::handle allowed_ids, nb::handle bad_words,
               nb::handle dry_breakers, nb::handle mask, nb::handle wants_support, nb::handle feedback) {
                return self.decide({logits, mask, wants_support, feedback},
                                   {prompt, output, params, bias, stop_ids, allowed_ids, bad_words,
                                    dry_breakers, nb::none()});
            },
            nb::arg("logits").none(), nb::arg("prompt").none() = nb::tuple(),
            nb::arg("output").none() = nb::tuple(), nb::kw_only(), nb::arg("params").none() = nb::none(),
            nb::arg("bias").none() = nb::none(), nb::arg("stop_ids").none() = nb::tuple(),
            nb::arg("allowed_ids").none() = nb::tuple(), nb::arg("bad_words").none() = nb::tuple(),
            nb::arg("dry_breakers").none() = nb::tuple(), nb::arg("mask").none() = nb::none(),
            nb::arg("wants_support").none() = false, nb::arg("feedback").none() = nb::make_tuple(0.0, 0.0),
            nb::sig(
                "def decide(self, logits: object, prompt: Ids = (), output: Ids = (), *, params: Params | "
                "None "
                "= None, bias: dict[int, float] | None = None, stop_ids: Ids = (), allowed_ids: Ids = (), "
                "bad_words: collections.abc.Sequence[Ids] = (), dry_breakers: collections.abc.Sequence[Ids] "
                "= "
                "(), mask: object | None = None, wants_support: bool = False, feedback: tuple[float, float] "
                "= "
                "(0.0, 0.0)) -> Answer"),
            "The token after prompt and output. logits: a row of float32, float16, or bfloat16 (by DLPack, "
            "or its "
            "bits as uint16).");
}

}  // namespace croupier::python
