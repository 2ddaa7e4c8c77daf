#include "python/extension/beams.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "python/extension/bindings.h"
#include "python/extension/numbers.h"
#include "python/extension/request.h"

namespace croupier::python {
namespace {

struct Hypothesis {
    std::vector<std::int32_t> tokens;
    double score;
    double logprob;
    bool stopped;
};

std::uint32_t whole(const char* name, nb::handle value) {
    const auto number = number_of<std::uint32_t>(value);
    if (!number) throw bad_argument(std::string(name) + " is " + shown(value) + "; allowed: a whole number");
    return *number;
}

std::uint32_t early_stopping_of(nb::handle value) {
    if (value.is(nb::bool_(false))) return CROUPIER_EARLY_STOPPING_FALSE;
    if (value.is(nb::bool_(true))) return CROUPIER_EARLY_STOPPING_TRUE;
    if (nb::isinstance<nb::str>(value) && nb::cast<std::string>(value) == "never")
        return CROUPIER_EARLY_STOPPING_NEVER;
    throw bad_argument("early_stopping is " + shown(value) + "; allowed: False, True and 'never'");
}

// The log-probs of each beam, and whether they are all of its row.
class Rows {
  public:
    Rows(nb::handle rows, nb::handle is_all) {
        if (!nb::hasattr(rows, "__iter__"))
            throw bad_argument("rows is " + shown(rows) + "; allowed: one Decision.best for each beam");
        for (const nb::handle row : rows) add(row);
        for (const auto& best : best_)
            plain_.push_back(
                {best.data(), static_cast<std::uint32_t>(best.size()), is_all.is(nb::bool_(true)) ? 1U : 0U});
        if (!nb::isinstance<nb::bool_>(is_all)) set_each(is_all);
    }

    const std::vector<croupier_beam_row>& plain() const { return plain_; }

  private:
    void add(nb::handle row) {
        const std::string name = "rows[" + std::to_string(best_.size()) + "]";
        if (!nb::hasattr(row, "__iter__"))
            throw bad_argument(name + " is " + shown(row) + "; allowed: a Decision's best");
        std::vector<croupier_logprob>& best = best_.emplace_back();
        for (const nb::handle each : row) {
            const bool is_pair = nb::isinstance<nb::sequence>(each) && nb::len(each) >= 2;
            const auto token = is_pair ? number_of<std::int32_t>(nb::object(each[0])) : std::nullopt;
            const auto logprob = is_pair ? number_of<float>(nb::object(each[1])) : std::nullopt;
            if (!token || !logprob)
                throw bad_argument(name + " has " + shown(each) + "; allowed: (token, log-prob), and more");
            best.push_back({*token, *logprob, 0});
        }
    }

    void set_each(nb::handle is_all) {
        if (!nb::isinstance<nb::sequence>(is_all) || nb::len(is_all) != plain_.size())
            throw bad_argument("is_all is " + shown(is_all) + "; allowed: a bool, or one for each of " +
                               std::to_string(plain_.size()) + " rows");
        for (std::size_t i = 0; i < plain_.size(); ++i)
            plain_[i].is_all = nb::cast<bool>(nb::object(is_all[i])) ? 1 : 0;
    }

    std::vector<std::vector<croupier_logprob>> best_;
    std::vector<croupier_beam_row> plain_;
};

}  // namespace

Beams::Beams(const BeamsArguments& given) {
    const std::vector<std::int32_t> stop_ids = ids_of(given.stop_ids, "stop_ids");
    const auto penalty = number_of<double>(given.length_penalty);
    if (!penalty)
        throw bad_argument("length_penalty is " + shown(given.length_penalty) + "; allowed: a number");
    croupier_beams_options options;
    croupier_beams_options_init(&options);
    options.width = whole("width", given.width);
    options.max_tokens = whole("max_tokens", given.max_tokens);
    options.min_tokens = whole("min_tokens", given.min_tokens);
    options.early_stopping = early_stopping_of(given.early_stopping);
    options.length_penalty = *penalty;
    options.stop_ids = stop_ids.data();
    options.stop_count = stop_ids.size();
    croupier_beams* beams = nullptr;
    checked([&](croupier_error* error) { return croupier_beams_open(&options, &beams, error); });
    held_.emplace("search", beams);
    candidates_ = croupier_beams_candidates(beams);
}

Beams::~Beams() {
    if (held_) held_->let_go(croupier_beams_close);
}

nb::list Beams::step(nb::handle given, nb::handle is_all) {
    const Rows rows(given, is_all);
    std::vector<croupier_beam> next = held_->use_briefly([&](croupier_beams* beams) {
        croupier_beam_next plain;
        croupier_beam_next_init(&plain);
        checked([&](croupier_error* error) {
            return croupier_beam_step(beams, rows.plain().data(), rows.plain().size(), &plain, error);
        });
        return std::vector<croupier_beam>(plain.beams, plain.beams + plain.count);
    });
    is_over_ = next.empty();
    nb::list all;
    for (const croupier_beam& each : next) all.append(nb::make_tuple(each.parent, each.token, each.logprob));
    return all;
}

nb::list Beams::hypotheses() {
    std::vector<Hypothesis> found = held_->use_briefly([](croupier_beams* beams) {
        std::vector<Hypothesis> copies;
        croupier_hypothesis plain;
        croupier_hypothesis_init(&plain);
        while (checked([&](croupier_error* error) {
                   return croupier_beams_hypothesis(beams, copies.size(), &plain, error);
               }) == 1) {
            copies.push_back(
                {{plain.tokens, plain.tokens + plain.count}, plain.score, plain.logprob, plain.stopped == 1});
        }
        return copies;
    });
    nb::list all;
    for (Hypothesis& each : found) all.append(nb::cast(std::move(each)));
    return all;
}

void bind_beams(nb::module_& module) {
    nb::class_<Hypothesis>(module, "Hypothesis", "A finished hypothesis of a beam search.")
        .def_prop_ro(
            "tokens", [](const Hypothesis& self) { return self.tokens; },
            nb::for_getter(nb::sig("def tokens(self) -> list[int]")), "with the stop id that ended it")
        .def_ro("score", &Hypothesis::score, "logprob / len(tokens) ** length_penalty")
        .def_ro("logprob", &Hypothesis::logprob, "of all its tokens")
        .def_ro("stopped", &Hypothesis::stopped, "whether a stop id ended it, or max_tokens");
    nb::class_<Beams>(module, "Beams",
                      "A beam search over the best log-probs of decisions, as Hugging Face's "
                      "generate(num_beams) defines it.")
        .def(
            "__init__",
            [](Beams* place, nb::handle width, nb::handle max_tokens, nb::handle min_tokens,
               nb::handle length_penalty, nb::handle early_stopping, nb::handle stop_ids) {
                new (place) Beams({width, max_tokens, min_tokens, length_penalty, early_stopping, stop_ids});
            },
            nb::arg("width").none(), nb::kw_only(), nb::arg("max_tokens").none(),
            nb::arg("min_tokens").none() = 0, nb::arg("length_penalty").none() = 1.0,
            nb::arg("early_stopping").none() = false, nb::arg("stop_ids").none() = nb::tuple(),
            nb::sig("def __init__(self, width: int, *, max_tokens: int, min_tokens: int = 0, "
                    "length_penalty: float = 1.0, early_stopping: bool | str = False, stop_ids: Ids = ()) -> "
                    "None"))
        .def_prop_ro("candidates", &Beams::candidates,
                     "how many log-probs each beam brings to a step: Params(logprobs=…)")
        .def_prop_ro("is_over", &Beams::is_over, "whether no beam goes on")
        .def(
            "step", &Beams::step, nb::arg("rows").none(), nb::kw_only(), nb::arg("is_all").none() = false,
            nb::sig("def step(self, rows: collections.abc.Sequence[collections.abc.Sequence[tuple]], *, "
                    "is_all: bool | "
                    "collections.abc.Sequence[bool] = False) -> list[tuple[int, int, float]]"),
            "rows: Decision.best of each beam, in their order. Returns the beams that go on, the best first, "
            "as (parent, token, log-prob of all its tokens); none when the search is over. is_all: a row has "
            "no other token, for instance under a mask, and may bring fewer.")
        .def_prop_ro("hypotheses", &Beams::hypotheses,
                     nb::for_getter(nb::sig("def hypotheses(self) -> list[Hypothesis]")),
                     "the finished ones, the best first");
}

}  // namespace croupier::python
