#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "croupier/client.h"
#include "python/extension/array.h"
#include "python/extension/beams.h"
#include "python/extension/bindings.h"
#include "python/extension/deadline.h"
#include "python/extension/held.h"
#include "python/extension/keywords.h"
#include "python/extension/numbers.h"
#include "python/extension/open_options.h"
#include "python/extension/request.h"
#include "python/extension/step.h"
#include "python/extension/text_stop.h"

namespace croupier::python {
namespace {

// A wait without an end does not wait for ever for a daemon that is gone.
constexpr std::chrono::seconds kRestartPatience{10};

croupier_session* open_session(const OpenOptions& options) {
    croupier_session* session = nullptr;
    checked([&](croupier_error* error) { return croupier_open(&options.plain(), &session, error); });
    return session;
}

// Its masks are Python's own arrays, which it keeps.
class Columns {
  public:
    Columns(nb::handle uids, nb::handle masks, nb::handle mask_rows, nb::handle rows, std::uint32_t vocab) {
        if (Array::is_one(uids)) {
            for (const nb::handle uid : nb::borrow(uids).attr("tolist")()) add(uid);
        } else if (nb::hasattr(uids, "__iter__")) {
            for (const nb::handle uid : uids) add(uid);
        } else {
            throw bad_argument("uids is " + shown(uids) + "; allowed: a sequence of uids, one a column");
        }
        if (!rows.is_none()) set_rows(rows);
        const std::size_t words = (std::size_t{vocab} + 31) / 32;
        if (!mask_rows.is_none()) {
            set_mask_rows(masks, mask_rows, words);
        } else if (!masks.is_none()) {
            set_masks(masks, words);
        }
    }

    const std::vector<croupier_column>& plain() const { return columns_; }

  private:
    void add(nb::handle uid) { columns_.push_back({uid_of(uid), nullptr, 1, 0}); }

    void set_rows(nb::handle rows) {
        if (!nb::isinstance<nb::sequence>(rows) || nb::len(rows) != columns_.size()) {
            throw bad_argument("rows is " + shown(rows) + "; allowed: None, or a list of " +
                               std::to_string(columns_.size()) + " numbers, one a column");
        }
        for (std::size_t column = 0; column < columns_.size(); ++column) {
            const auto count = number_of<std::uint32_t>(nb::object(rows[column]));
            if (!count || *count < 1 || *count > CROUPIER_MAX_WINDOW_ROWS) {
                throw bad_argument("rows[" + std::to_string(column) + "] is " +
                                   shown(nb::object(rows[column])) + "; allowed: 1 to " +
                                   std::to_string(CROUPIER_MAX_WINDOW_ROWS));
            }
            columns_[column].rows = *count;
        }
    }

    void set_masks(nb::handle masks, std::size_t words) {
        if (!nb::isinstance<nb::sequence>(masks) || nb::len(masks) != columns_.size()) {
            throw bad_argument("masks is " + shown(masks) + "; allowed: None, or a list of " +
                               std::to_string(columns_.size()) + ", one a column");
        }
        for (std::size_t column = 0; column < columns_.size(); ++column) {
            const nb::object mask = masks[column];
            if (mask.is_none()) continue;
            const Array& array = arrays_.emplace_back(mask, "masks[" + std::to_string(column) + "]");
            const std::uint32_t rows = columns_[column].rows;
            columns_[column].mask =
                rows == 1 ? array.mask_words(words) : array.mask_words_of_rows(0, rows, words);
        }
    }

    // The masks of a large batch as rows of one array: objects for 256 masks take most of a millisecond.
    void set_mask_rows(nb::handle masks, nb::handle rows, std::size_t words) {
        if (!nb::isinstance<nb::sequence>(rows) || nb::len(rows) != columns_.size()) {
            throw bad_argument("mask_rows is " + shown(rows) + "; allowed: None, or a list of " +
                               std::to_string(columns_.size()) + ", one a column");
        }
        const Array& array = arrays_.emplace_back(masks, "masks");
        for (std::size_t column = 0; column < columns_.size(); ++column) {
            const nb::object given = rows[column];
            if (given.is_none()) continue;
            const auto row = number_of<std::size_t>(given);
            if (!row || array.dimensions() == 0 || *row >= array.length(0)) {
                throw bad_argument("mask_rows[" + std::to_string(column) + "] is " + shown(given) +
                                   "; allowed: None, or a row of masks, whose shape is " +
                                   array.shape_text());
            }
            columns_[column].mask = array.mask_words_of_rows(*row, columns_[column].rows, words);
        }
    }

    std::vector<croupier_column> columns_;
    std::deque<Array> arrays_;
};

class Session {
  public:
    explicit Session(const OpenOptions& options)
        : relay_(options.relay()),
          held_("session", open_without_gil(options)),
          vocab_(options.plain().vocab) {
        held_.use([&](croupier_session* session) {
            segment_path_ = croupier_segment_path(session);
            resumed_ = croupier_resumed(session) != 0;
        });
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() { held_.let_go(croupier_detach); }

    const std::string& segment_path() const { return segment_path_; }
    bool resumed() const { return resumed_; }
    bool is_open() const { return held_.is_open(); }

    std::uint32_t in_flight() {
        return held_.use_briefly([](croupier_session* session) { return croupier_in_flight(session); });
    }

    int fileno() {
        return held_.use([](croupier_session* session) {
            return checked([&](croupier_error* error) { return croupier_event_fd(session, error); });
        });
    }

    std::vector<std::uint64_t> list() {
        return held_.use([](croupier_session* session) {
            const auto list = [&](std::uint64_t* uids, std::size_t room) {
                return static_cast<std::size_t>(checked(
                    [&](croupier_error* error) { return croupier_list(session, uids, room, error); }));
            };
            std::vector<std::uint64_t> uids(list(nullptr, 0));
            list(uids.data(), uids.size());
            return uids;
        });
    }

    std::vector<std::int32_t> output(nb::handle given) {
        const std::uint64_t uid = uid_of(given);
        return held_.use([&](croupier_session* session) {
            const std::int64_t length = checked(
                [&](croupier_error* error) { return croupier_output(session, uid, nullptr, 0, error); });
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
            croupier_output(session, uid, tokens.data(), tokens.size(), nullptr);
            return tokens;
        });
    }

    nb::bytes text(nb::handle given, nb::handle start) {
        const std::uint64_t uid = uid_of(given);
        const auto from = number_of<std::uint64_t>(start);
        if (!from) throw bad_argument("start is " + shown(start) + "; allowed: a byte of the released text");
        std::string bytes;
        held_.use_briefly([&](croupier_session* session) {
            const auto read = [&] {
                return static_cast<std::size_t>(checked([&](croupier_error* error) {
                    return croupier_text(session, uid, *from, bytes.data(), bytes.size(), error);
                }));
            };
            bytes.resize(read());
            read();
        });
        return nb::bytes(bytes.data(), bytes.size());
    }

    std::optional<TextStop> text_stop(nb::handle given) {
        const std::uint64_t uid = uid_of(given);
        TextStop stop;
        stop.flag = static_cast<std::uint16_t>(held_.use_briefly([&](croupier_session* session) {
            return checked([&](croupier_error* error) {
                return croupier_text_stop(session, uid, &stop.stop_string, &stop.begin, error);
            });
        }));
        return stop.flag == 0 ? std::nullopt : std::optional(stop);
    }

    std::uint64_t add(nb::handle uid, const RequestArguments& arguments) {
        const Request request(uid_of(uid), arguments);
        held_.use_briefly([&](croupier_session* session) {
            const croupier_sequence sequence = request.sequence();
            checked([&](croupier_error* error) { return croupier_add(session, &sequence, error); });
        });
        return request.seed();
    }

    std::uint64_t submit(nb::handle uids, nb::handle masks, nb::handle mask_rows, nb::handle rows) {
        const Columns columns(uids, masks, mask_rows, rows, vocab_);
        return held_.use_briefly([&](croupier_session* session) {
            std::uint64_t step = 0;
            checked([&](croupier_error* error) {
                return croupier_submit(session, columns.plain().data(), columns.plain().size(), &step, error);
            });
            return step;
        });
    }

    std::optional<Step> wait(nb::handle seconds) {
        const Deadline deadline(seconds);
        constexpr auto kNotGone = std::chrono::steady_clock::time_point::max();
        auto gone_since = kNotGone;
        bool is_first = true;
        return wait_in_slices(deadline, [&](std::uint32_t slice_ms) {
            try {
                auto step = std::exchange(is_first, false) ? look() : wait_slice(slice_ms);
                gone_since = kNotGone;
                return step;
            } catch (const Failure& failure) {
                // As in croupier_wait(), a daemon that is back within the time-out goes unnoticed.
                const bool may_come = failure.code() == CROUPIER_ERROR_DAEMON_GONE && in_flight() != 0;
                if (!may_come || deadline.has_passed()) throw;
                const auto now = std::chrono::steady_clock::now();
                gone_since = std::min(gone_since, now);
                if (deadline.is_never() && now - gone_since >= kRestartPatience) throw;
                return std::optional<Step>();
            }
        });
    }

    void finish(nb::handle given) {
        const std::uint64_t uid = uid_of(given);
        held_.use_briefly([&](croupier_session* session) {
            checked([&](croupier_error* error) { return croupier_finish(session, uid, error); });
        });
    }

    void fork(nb::handle given, nb::handle of_child, nb::handle outputs, nb::handle child) {
        const auto parent = number_of<std::uint64_t>(given);
        if (!parent)
            throw bad_argument("parent is " + shown(given) + "; allowed: the uid of a live sequence");
        const std::uint64_t uid = uid_of(of_child);
        const auto kept = number_of<std::uint32_t>(outputs);
        const auto number = number_of<std::uint32_t>(child);
        if (!kept) throw bad_argument("outputs is " + shown(outputs) + "; allowed: how many to go on from");
        if (!number) throw bad_argument("child is " + shown(child) + "; allowed: 0 to 1023");
        held_.use_briefly([&](croupier_session* session) {
            checked([&](croupier_error* error) {
                return croupier_fork(session, *parent, uid, *kept, *number, error);
            });
        });
    }

    void truncate(nb::handle given, nb::handle outputs) {
        const std::uint64_t uid = uid_of(given);
        const auto kept_outputs = number_of<std::uint32_t>(outputs);
        if (!kept_outputs) {
            throw bad_argument("outputs is " + shown(outputs) + "; allowed: how many of its outputs to keep");
        }
        held_.use_briefly([&](croupier_session* session) {
            checked(
                [&](croupier_error* error) { return croupier_truncate(session, uid, *kept_outputs, error); });
        });
    }

    void append(nb::handle given, nb::handle tokens) {
        const std::uint64_t uid = uid_of(given);
        const std::vector<std::int32_t> ids = ids_of(tokens, "tokens");
        held_.use_briefly([&](croupier_session* session) {
            checked([&](croupier_error* error) {
                return croupier_append(session, uid, ids.data(), ids.size(), error);
            });
        });
    }

    std::vector<std::uint64_t> fork_beams(Beams& beams, nb::handle given) {
        if (!nb::hasattr(given, "__iter__"))
            throw bad_argument("uids is " + shown(given) + "; allowed: a uid for each beam");
        std::vector<std::uint64_t> uids;
        for (const nb::handle uid : given) uids.push_back(uid_of(uid));
        const nb::gil_scoped_release released;
        beams.use_without_gil([&](croupier_beams* search) {
            held_.use_without_gil([&](croupier_session* session) {
                checked([&](croupier_error* error) {
                    return croupier_beam_fork(session, search, uids.data(), uids.size(), error);
                });
            });
        });
        return uids;
    }

    void give_up(nb::handle given) {
        const auto step = number_of<std::uint64_t>(given);
        if (!step) throw bad_argument("step is " + shown(given) + "; allowed: what submit() returned");
        held_.use([&](croupier_session* session) {
            checked([&](croupier_error* error) { return croupier_give_up(session, *step, error); });
        });
    }

    void detach() { held_.take_apart(croupier_detach); }

    void close() {
        held_.take_apart([](croupier_session* session) {
            checked([&](croupier_error* error) { return croupier_close(session, error); });
        });
    }

  private:
    static croupier_session* open_without_gil(const OpenOptions& options) {
        const nb::gil_scoped_release released;
        return open_session(options);
    }

    std::optional<Step> wait_slice(std::uint32_t slice_ms) {
        return held_.use([&](croupier_session* session) { return step_within(session, slice_ms); });
    }
    std::optional<Step> look() {
        return held_.use_briefly([&](croupier_session* session) { return step_within(session, 0); });
    }

    static std::optional<Step> step_within(croupier_session* session, std::uint32_t timeout_ms) {
        croupier_step plain;
        croupier_step_init(&plain);
        const int got =
            checked([&](croupier_error* error) { return croupier_wait(session, timeout_ms, &plain, error); });
        if (got == 0) return std::nullopt;
        return Step(plain);
    }

    nb::object relay_;  // before the session, which uses it until its end
    Held<croupier_session> held_;
    std::uint32_t vocab_;
    std::string segment_path_;
    bool resumed_ = false;
};

}  // namespace

void bind_session(nb::module_& module) {
    bind_text_stop(module);
    nb::class_<Session>(module, "Session")
        .def(
            "__init__",
            [](Session* place, const nb::kwargs& given) { new (place) Session(OpenOptions(given)); },
            nb::sig(kept(OpenOptions::signature())))
        .def_prop_ro("segment_path", &Session::segment_path,
                     "where the ranks' writers attach, on the session's host")
        .def_prop_ro("resumed", &Session::resumed, "whether it goes on with an earlier session")
        .def_prop_ro("in_flight", &Session::in_flight, "steps submitted and not yet waited for")
        .def_prop_ro("is_open", &Session::is_open, "False once it was closed or detached")
        .def(
            "fileno", &Session::fileno,
            "A descriptor for an event loop. When it is readable, call wait(0) until it returns None or no "
            "step "
            "is in flight; call wait(0) once a second in any case: it alone sees what becomes of the daemon.")
        .def("list", &Session::list, nb::sig("def list(self) -> IntList"), "The uids of live sequences.")
        .def("output", &Session::output, nb::arg("uid").none(),
             nb::sig("def output(self, uid: int) -> IntList"),
             "A live sequence's output, as far as steps were waited for.")
        .def(
            "text", &Session::text, nb::arg("uid").none(), nb::arg("start").none() = 0,
            nb::sig("def text(self, uid: int, start: int = 0) -> bytes"),
            "The released text of a live sequence's output as UTF-8, from byte `start` on: whole characters, "
            "and nothing that may still become a part of a stop string.")
        .def("text_stop", &Session::text_stop, nb::arg("uid").none(),
             nb::sig("def text_stop(self, uid: int) -> TextStop | None"),
             "What of its text the last token of a live sequence's output completes: for a client that has "
             "resumed a session and did not see the decision.")
        .def(
            "add",
            [](Session& self, nb::handle uid, nb::handle prompt, nb::handle output, nb::handle params,
               nb::handle bias, nb::handle stop_ids, nb::handle allowed_ids, nb::handle bad_words,
               nb::handle dry_breakers, nb::handle stop_strings) {
                return self.add(uid, {prompt, output, params, bias, stop_ids, allowed_ids, bad_words,
                                      dry_breakers, stop_strings});
            },
            nb::arg("uid").none(), nb::arg("prompt").none(), nb::kw_only(),
            nb::arg("output").none() = nb::tuple(), nb::arg("params").none() = nb::none(),
            nb::arg("bias").none() = nb::none(), nb::arg("stop_ids").none() = nb::tuple(),
            nb::arg("allowed_ids").none() = nb::tuple(), nb::arg("bad_words").none() = nb::tuple(),
            nb::arg("dry_breakers").none() = nb::tuple(), nb::arg("stop_strings").none() = nb::tuple(),
            nb::sig("def add(self, uid: int, prompt: Ids, *, output: Ids = (), params: Params | None = None, "
                    "bias: dict[int, float] | None = None, stop_ids: Ids = (), allowed_ids: Ids = (), "
                    "bad_words: collections.abc.Sequence[Ids] = (), "
                    "dry_breakers: collections.abc.Sequence[Ids] = (), "
                    "stop_strings: collections.abc.Sequence[str] = ()) -> int"),
            "Admits a sequence, and returns its seed: that of `params`, or a random one where it is None, as "
            "by default. A sequence that comes back needs the seed that it had; a greedy one needs none. "
            "`output` was decided earlier, elsewhere. The first of `stop_strings` that the output's text has "
            "ends it; they need a session with a tokenizer.")
        .def(
            "submit", &Session::submit, nb::arg("uids").none(), nb::kw_only(),
            nb::arg("masks").none() = nb::none(), nb::arg("mask_rows").none() = nb::none(),
            nb::arg("rows").none() = nb::none(),
            nb::sig("def submit(self, uids: Ids, *, masks: collections.abc.Sequence[object | None] | object "
                    "| None = None, mask_rows: collections.abc.Sequence[int | None] | None = None, rows: "
                    "collections.abc.Sequence[int] | None = None) -> int"),
            "Publishes a step with one column a sequence, and returns its number. masks: one entry a column, "
            "None or a uint32 or int32 array of (vocab + 31) // 32 words whose set bits are allowed ids. "
            "With "
            "mask_rows, masks is one array of such rows, and mask_rows has the row of each column, or None. "
            "rows: how many rows each column's window has; its masks are as many rows, the first of which "
            "mask_rows names.")
        .def("wait", &Session::wait, nb::arg("timeout").none() = nb::none(),
             nb::sig("def wait(self, timeout: float | None = None) -> Step | None"),
             "The oldest step in flight once it is decided, or None where it is not within `timeout` "
             "seconds; 0 "
             "only looks. Without a timeout it ends with daemon_gone when no daemon came back within 10 "
             "seconds.")
        .def("finish", &Session::finish, nb::arg("uid").none(), nb::sig("def finish(self, uid: int) -> None"),
             "Ends a sequence; its columns in flight are answered as void.")
        .def("fork", &Session::fork, nb::arg("parent").none(), nb::arg("uid").none(), nb::kw_only(),
             nb::arg("outputs").none(), nb::arg("child").none(),
             nb::sig("def fork(self, parent: int, uid: int, *, outputs: int, child: int) -> None"),
             "Adds a sequence that goes on from the first `outputs` outputs of a live one, with all that it "
             "was added with. child: its own number, 0 to 1023; with the parent's it is decided as the "
             "parent.")
        .def("truncate", &Session::truncate, nb::arg("uid").none(), nb::arg("outputs").none(),
             nb::sig("def truncate(self, uid: int, outputs: int) -> None"),
             "Keeps the first `outputs` tokens of its output; what it has in flight is void.")
        .def("append", &Session::append, nb::arg("uid").none(), nb::arg("tokens").none(),
             nb::sig("def append(self, uid: int, tokens: Ids) -> None"),
             "Lengthens its output, as if these tokens had been decided. It may not be in flight.")
        .def("fork_beams", &Session::fork_beams, nb::arg("beams"), nb::arg("uids").none(),
             nb::sig("def fork_beams(self, beams: Beams, uids: Ids) -> IntList"),
             "Carries the last step of a search out: forks, lengthens and finishes its sequences. uids: one "
             "for "
             "each beam of its width, first those of the beams that stood in the step, in their order. "
             "Returns "
             "them with those of the beams that go on first.")
        .def("give_up", &Session::give_up, nb::arg("step").none(),
             nb::sig("def give_up(self, step: int) -> None"),
             "Gives up a step in flight whose logits will not come.")
        .def("detach", &Session::detach,
             "Leaves the session to a later client, which finds it with resume=1. Nothing the second time.")
        .def("close", &Session::close,
             "Closes the session: its memory is given back. Nothing the second time.");
}

}  // namespace croupier::python
