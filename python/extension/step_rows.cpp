#include "python/extension/step_rows.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "python/extension/failure.h"
#include "python/extension/numbers.h"

namespace croupier::python {
namespace {

// The engine's row of each column: the column's own number where none are given.
class Rows {
  public:
    Rows(nb::handle given, std::size_t columns, std::size_t count) {
        if (given.is_none()) {
            if (columns > count) throw too_few(columns, count);
            return;
        }
        if (!nb::isinstance<nb::sequence>(given) || nb::len(given) != columns) {
            throw bad_argument("rows is " + shown(given) + "; allowed: None, or a list of " +
                               std::to_string(columns) + ", one a column");
        }
        rows_.reserve(columns);
        for (const nb::handle each : nb::borrow<nb::sequence>(given)) {
            const auto row = number_of<std::size_t>(each);
            if (!row || *row >= count) {
                throw bad_argument("a row is " + shown(each) + "; allowed: 0 to " + std::to_string(count) +
                                   ", exclusive");
            }
            rows_.push_back(*row);
        }
    }

    std::size_t of(std::size_t column) const { return rows_.empty() ? column : rows_[column]; }

  private:
    static Failure too_few(std::size_t columns, std::size_t count) {
        return bad_argument("there are " + std::to_string(count) + " rows for " + std::to_string(columns) +
                            " columns; allowed: at least as many");
    }

    std::vector<std::size_t> rows_;
};

// How many of the step's decisions each column has: one where none are given.
class Windows {
  public:
    Windows(nb::handle given, std::size_t decisions) : columns_(decisions) {
        if (given.is_none()) return;
        if (!nb::isinstance<nb::sequence>(given)) throw not_all(given, decisions);
        std::size_t left = decisions;
        for (const nb::handle each : nb::borrow<nb::sequence>(given)) {
            const auto rows = number_of<std::size_t>(each);
            if (!rows || *rows == 0 || *rows > left) throw not_all(given, decisions);
            rows_.push_back(*rows);
            left -= *rows;
        }
        if (left != 0) throw not_all(given, decisions);
        columns_ = rows_.size();
    }

    std::size_t columns() const { return columns_; }
    std::size_t of(std::size_t column) const { return rows_.empty() ? 1 : rows_[column]; }

  private:
    static Failure not_all(nb::handle given, std::size_t decisions) {
        return bad_argument("windows is " + shown(given) +
                            "; allowed: None, or a list of the rows of each column, " +
                            std::to_string(decisions) + " in all");
    }

    std::size_t columns_;
    std::vector<std::size_t> rows_;
};

// Whether `row` is a list of these decisions' tokens, up to the first that is rejected, and not of none.
// Creates no Python objects.
bool is_decided(PyObject* row, std::span<const croupier_decision> decisions) {
    if (PyList_Check(row) == 0) return false;
    const auto count = static_cast<std::size_t>(PyList_Size(row));
    if (count == 0 || count > decisions.size()) return false;
    for (std::size_t place = 0; place < count; ++place) {
        const long drawn = PyLong_AsLong(PyList_GetItem(row, static_cast<Py_ssize_t>(place)));
        if (drawn == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
        if (decisions[place].error != 0 || drawn != decisions[place].token) return false;
    }
    return count == decisions.size() || decisions[count].error == CROUPIER_DECISION_REJECTED;
}

std::vector<std::size_t> mismatches(const Step& step, const nb::list& sampled, nb::handle given_rows,
                                    nb::handle given_windows) {
    const Windows windows(given_windows, step.decisions.size());
    const std::size_t columns = windows.columns();
    const Rows rows(given_rows, columns, nb::len(sampled));
    std::vector<std::size_t> found;
    for (std::size_t column = 0, first = 0; column < columns; first += windows.of(column), ++column) {
        PyObject* row = PyList_GetItem(sampled.ptr(), static_cast<Py_ssize_t>(rows.of(column)));
        if (!is_decided(row, std::span(step.decisions).subspan(first, windows.of(column)))) {
            found.push_back(column);
        }
    }
    return found;
}

// With how many tokens of output each has then.
nb::list ended_by_strings(const Step& step) {
    nb::list ended;
    for (std::size_t column = 0; column < step.decisions.size(); ++column) {
        const croupier_decision& decision = step.decisions[column];
        if ((decision.flags & CROUPIER_STOPPED_STRING) != 0)
            ended.append(nb::make_tuple(column, decision.output_index + 1));
    }
    return ended;
}

// Tokens that do not fit are left out.
struct RankedRow {
    std::span<std::int32_t> tokens;
    std::span<float> logprobs;

    void put(std::size_t place, std::int32_t token, float logprob) const {
        if (place >= tokens.size()) return;
        tokens[place] = token;
        logprobs[place] = logprob;
    }
};

std::size_t write_ranked(const croupier_decision& decision, const RankedRow& row) {
    if (decision.error != 0) return 0;
    row.put(0, decision.token, decision.logprob);
    for (std::size_t i = 0; i < decision.best_count; ++i)
        row.put(i + 1, decision.best[i].token, decision.best[i].logprob);
    return std::min<std::size_t>(1 + decision.best_count, row.tokens.size());
}

// Fills the places from `from` on with the smallest ids that are not in the row.
void fill_up(const RankedRow& row, std::size_t from) {
    std::int32_t id = 0;
    for (std::size_t place = from; place < row.tokens.size(); ++place, ++id) {
        const auto taken = row.tokens.first(from);
        while (std::find(taken.begin(), taken.end(), id) != taken.end()) ++id;
        row.tokens[place] = id;
    }
}

// Row by row; a list of tuples for each column costs a large batch milliseconds.
nb::tuple ranked(const Step& step, std::size_t width, nb::handle given_rows, std::optional<std::size_t> count,
                 bool fills) {
    const std::size_t columns = step.decisions.size();
    const std::size_t all = count.value_or(columns);
    const Rows rows(given_rows, columns, all);
    std::vector<std::int32_t> tokens(all * width, fills ? 0 : -1);
    std::vector<float> logprobs(all * width, -std::numeric_limits<float>::infinity());
    std::vector<std::uint32_t> ranks(all, 0);
    for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t at = rows.of(column);
        const RankedRow row{std::span(tokens).subspan(at * width, width),
                            std::span(logprobs).subspan(at * width, width)};
        ranks[at] = step.decisions[column].rank;
        const std::size_t written = write_ranked(step.decisions[column], row);
        if (fills) fill_up(row, written);
    }
    return nb::make_tuple(view_of(tokens, "i"), view_of(logprobs, "f"), view_of(ranks, "I"));
}

}  // namespace

void bind_step_rows(nb::class_<Step>& step) {
    step.def("mismatches", &mismatches, nb::arg("sampled"), nb::kw_only(),
             nb::arg("rows").none() = nb::none(), nb::arg("windows").none() = nb::none(),
             nb::sig("def mismatches(self, sampled: list[list[int]], *, rows: Ids | None = None, "
                     "windows: Ids | None = None) -> IntList"),
             "The columns that have no token, and those whose token is not the only one in their row of "
             "`sampled`. rows: the row of each column; None: its own number. windows: how many of the step's "
             "decisions each column has (None: one); their row has the tokens before the first that is "
             "rejected.");
    step.def("ended_by_strings", &ended_by_strings,
             nb::sig("def ended_by_strings(self) -> list[tuple[int, int]]"),
             "The columns whose sequences a stop string ends with this step, and how many tokens of output "
             "each then has.");
    step.def("ranked", &ranked, nb::arg("width"), nb::kw_only(), nb::arg("rows").none() = nb::none(),
             nb::arg("count").none() = nb::none(), nb::arg("fills") = false,
             nb::sig("def ranked(self, width: int, *, rows: Ids | None = None, count: int | None = None, "
                     "fills: bool = False) -> tuple[memoryview, memoryview, memoryview]"),
             "The log-probs of all columns, row by row: `width` tokens (int32) and their log-probs (float32) "
             "a row, the drawn one, then the best, -1 and -inf where there are fewer; and each drawn token's "
             "rank (uint32). rows and count: the row of each column, of so many; None: its own number. "
             "fills: instead of -1, ids that the row does not have.");
}

}  // namespace croupier::python
