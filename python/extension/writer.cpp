#include "croupier/writer.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "python/extension/array.h"
#include "python/extension/bindings.h"
#include "python/extension/deadline.h"
#include "python/extension/held.h"
#include "python/extension/numbers.h"
#include "python/extension/open_options.h"
#include "python/extension/writer_info.h"

namespace croupier::python {
namespace {

constexpr std::array kPaths = {"auto", "store", "copy"};
constexpr std::array kRows = {"auto", "lent", "copied"};

// Of steps that were begun and not enqueued, and of those whose tokens may be asked for; by step.
class BegunColumns {
  public:
    void begin(std::uint64_t step, std::optional<std::uint32_t> columns, std::uint32_t slots) {
        known_[step] = columns;
        waiting_[step] = columns;
        while (known_.size() > slots) known_.erase(known_.begin());
        while (waiting_.size() > slots) waiting_.erase(waiting_.begin());
    }
    void enqueue() {
        if (!waiting_.empty()) waiting_.erase(waiting_.begin());
        was_refused_ = false;
    }
    // Rows that come next, for a later step, would be taken for those of its step.
    void refuse() { was_refused_ = true; }
    bool was_refused() const { return was_refused_ && !waiting_.empty(); }
    std::size_t count() const { return waiting_.size(); }
    void abandon() {
        waiting_.clear();
        was_refused_ = false;
    }

    std::optional<std::uint32_t> of_next() const {
        return waiting_.empty() ? std::nullopt : waiting_.begin()->second;
    }
    std::optional<std::uint32_t> of(std::uint64_t step) const {
        const auto found = known_.find(step);
        return found == known_.end() ? std::nullopt : found->second;
    }

  private:
    std::map<std::uint64_t, std::optional<std::uint32_t>> known_, waiting_;
    std::atomic<bool> was_refused_ = false;  // told without the writer's turn, too
};

void* stream_of(nb::handle given) {
    const auto stream = number_of<std::uintptr_t>(given);
    if (!stream) {
        throw bad_argument("stream is " + shown(given) +
                           "; allowed: a CUDA stream as a number, such as torch's stream.cuda_stream, or 0");
    }
    return reinterpret_cast<void*>(*stream);  // NOLINT(performance-no-int-to-ptr)
}

void* pointer_of(nb::handle given, const std::string& name = "pointer") {
    const auto address = number_of<std::uintptr_t>(given);
    if (!address || *address == 0) {
        throw bad_argument(name + " is " + shown(given) +
                           "; allowed: an address, such as torch's data_ptr()");
    }
    return reinterpret_cast<void*>(*address);  // NOLINT(performance-no-int-to-ptr)
}

const std::int32_t* numbers_at(nb::handle given, const char* name) {
    return given.is_none() ? nullptr : static_cast<const std::int32_t*>(pointer_of(given, name));
}

std::uint64_t step_of(nb::handle given) {
    const auto step = number_of<std::uint64_t>(given);
    if (!step) throw bad_argument("step is " + shown(given) + "; allowed: what Session.submit() returned");
    return *step;
}

bool fits(ElementType type, std::uint32_t dtype) {
    if (dtype == CROUPIER_BF16) return type == kBfloat16 || type == kUint16;
    return type == (dtype == CROUPIER_FP16 ? kFloat16 : kFloat32);
}

const char* elements_of(std::uint32_t dtype) {
    if (dtype == CROUPIER_BF16) return "bfloat16 by DLPack, or its bits as uint16";
    return dtype == CROUPIER_FP16 ? "float16" : "float32";
}

// An int32 for each column, or None.
struct ColumnNumbers {
    ColumnNumbers(nb::handle given, const char* name) {
        if (given.is_none()) return;
        array.emplace(given, name);
        array->require_dimensions(1, "a number for each column");
        array->require_contiguous();
        if (array->type() != kInt32) {
            throw bad_argument("the elements of " + array->name() + " are " + name_of(array->type()) +
                               "; allowed: int32");
        }
    }
    void require_length(std::size_t columns) const {
        if (!array || array->length(0) >= columns) return;
        throw bad_argument("the shape of " + array->name() + " is " + array->shape_text() +
                           "; allowed: at least the step's " + std::to_string(columns) + " columns");
    }
    // On the host, where they can be read: each is a row of so many, or -1.
    void require_rows(std::size_t rows) const {
        if (!array || array->device() != kHost) return;
        for (std::size_t column = 0; column < array->length(0); ++column) {
            const std::int32_t row = numbers()[column];
            if (row < -1 || row >= static_cast<std::int64_t>(rows)) {
                throw bad_argument(array->name() + "[" + std::to_string(column) + "] is " +
                                   std::to_string(row) + "; allowed: -1 to " + std::to_string(rows) +
                                   " - 1, a row of logits");
            }
        }
    }
    const std::int32_t* numbers() const {
        return array ? static_cast<const std::int32_t*>(array->data()) : nullptr;
    }

    std::optional<Array> array;
};

class Writer {
  public:
    Writer(nb::handle segment_path, nb::handle rank, nb::handle device, nb::handle path,
           nb::handle store_blocks, nb::handle rows)
        : held_("writer", attach(segment_path, rank, device, path, store_blocks, rows)) {
        info_ = held_.use([](croupier_writer* writer) {
            WriterInfo info;
            checked([&](croupier_error* error) { return croupier_writer_get_info(writer, &info, error); });
            return info;
        });
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer() { held_.let_go(croupier_writer_detach); }

    const WriterInfo& info() const { return info_; }

    WriterState state() { return held_.use_briefly(state_of); }

    std::optional<std::pair<std::uint64_t, std::uint32_t>> wait_step(nb::handle seconds) {
        return wait_in_slices(Deadline(seconds), [&](std::uint32_t slice_ms) {
            return held_.use([&](croupier_writer* writer) {
                const auto wanted = look(writer, slice_ms);
                if (!wanted) require_open(writer);
                return wanted;
            });
        });
    }

    bool begin(nb::handle given) {
        const std::uint64_t step = step_of(given);
        return held_.use_briefly([&](croupier_writer* writer) {
            if (begun_.was_refused()) {
                throw bad_argument(
                    "the last enqueue was refused, and the step that it was for is begun: enqueue its rows, "
                    "or abandon(), before another step is begun");
            }
            // What this step's rows are checked against later is told with the oldest one that wants them.
            const auto wanted = look(writer, 0);
            const int status =
                checked([&](croupier_error* error) { return croupier_writer_begin(writer, step, error); });
            if (status == CROUPIER_WRITER_BUSY) return false;
            const bool told = wanted && wanted->first == step;
            begun_.begin(step, told ? std::optional(wanted->second) : std::nullopt, info_.steps_in_flight);
            return true;
        });
    }

    void enqueue(nb::handle logits, nb::handle stream_given, nb::handle row_of, nb::handle inputs,
                 nb::handle parents, nb::handle positions) {
        or_refused([&](bool& is_given) {
            void* stream = stream_of(stream_given);
            const Array rows(logits, "logits");
            require_rows(rows);
            const StepArrays arrays(row_of, inputs, parents, positions);
            use_device([&](croupier_writer* writer) {
                const auto columns = begun_.of_next();
                arrays.require(*this);
                arrays.row_of.require_rows(rows.length(0));
                // A captured graph is replayed past this object: only the host's steps are known to be in
                // order.
                if (info_.device == CROUPIER_WRITER_HOST && columns && !arrays.row_of.array &&
                    rows.length(0) != *columns) {
                    throw bad_argument("the shape of logits is " + rows.shape_text() +
                                       "; allowed: the step's " + std::to_string(*columns) + " rows of " +
                                       std::to_string(info_.ids));
                }
                croupier_rows all = arrays.rows();
                all.logits = rows.data();
                all.row_stride = row_stride_of(rows);
                enqueue_rows(writer, stream, all, is_given);
            });
        });
    }

    void enqueue_head(nb::handle hidden, nb::handle weight, nb::handle logits, nb::handle stream_given,
                      nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions) {
        or_refused([&](bool& is_given) {
            void* const stream = stream_of(stream_given);
            const Array states(hidden, "hidden");
            const Array head(weight, "weight");
            const Array room(logits, "logits");
            const StepArrays arrays(row_of, inputs, parents, positions);
            require_matrix(states, "(columns, elements)");
            require_matrix(head, "(ids, elements)");
            require_matrix(room, "(columns, head_row_elements)");
            if (head.length(0) != info_.ids || head.length(1) != states.length(1)) {
                throw bad_argument("the shape of weight is " + head.shape_text() +
                                   "; allowed: a row for each of rank " + std::to_string(info_.rank) + "'s " +
                                   std::to_string(info_.ids) +
                                   " ids, as long as those of hidden, whose shape is " + states.shape_text());
            }
            if (room.length(0) < states.length(0) || room.length(1) < info_.head_row_elements) {
                throw bad_argument(
                    "the shape of logits is " + room.shape_text() +
                    "; allowed: " + std::to_string(states.length(0)) + " rows, as hidden has, or more, of " +
                    std::to_string(info_.head_row_elements) + " elements (info.head_row_elements) or more");
            }
            use_device([&](croupier_writer* writer) {
                arrays.require(*this);
                arrays.row_of.require_rows(states.length(0));
                croupier_head all;
                croupier_head_init(&all);
                all.hidden = states.data();
                all.hidden_stride = row_stride_of(states);
                all.weight = head.data();
                all.weight_stride = row_stride_of(head);
                all.rows = static_cast<std::uint32_t>(states.length(0));
                all.elements = static_cast<std::uint32_t>(states.length(1));
                croupier_rows rows = arrays.rows();
                rows.logits = room.data();
                rows.row_stride = row_stride_of(room);
                is_given = true;
                checked([&](croupier_error* error) {
                    return croupier_writer_enqueue_head(writer, stream, &all, &rows, error);
                });
                begun_.enqueue();
            });
        });
    }

    void enqueue_pointer(nb::handle pointer, nb::handle row_stride, nb::handle stream_given,
                         nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions) {
        or_refused([&](bool& is_given) {
            void* const logits = pointer_of(pointer);
            void* const stream = stream_of(stream_given);
            const auto stride = number_of<std::uint64_t>(row_stride);
            if (!stride)
                throw bad_argument("row_stride is " + shown(row_stride) + "; allowed: a number of elements");
            croupier_rows rows;
            croupier_rows_init(&rows);
            rows.logits = logits;
            rows.row_stride = *stride;
            rows.row_of = numbers_at(row_of, "row_of");
            rows.inputs = numbers_at(inputs, "inputs");
            rows.parents = numbers_at(parents, "parents");
            rows.positions = numbers_at(positions, "positions");
            use_device([&](croupier_writer* writer) { enqueue_rows(writer, stream, rows, is_given); });
        });
    }

    bool wait_tokens(nb::handle given, nb::handle seconds) {
        const std::uint64_t step = step_of(given);
        return wait_in_slices(Deadline(seconds), [&](std::uint32_t slice_ms) {
            return held_.use([&](croupier_writer* writer) {
                const bool there = checked([&](croupier_error* error) {
                                       return croupier_writer_wait_tokens(writer, step, slice_ms, error);
                                   }) == 1;
                if (!there) require_open(writer);
                return there;
            });
        });
    }

    void enqueue_tokens(nb::handle given, nb::handle tokens, nb::handle stream_given) {
        enqueue_tokens_of(given, tokens, stream_given, std::nullopt);
    }
    void enqueue_awaited_tokens(nb::handle given, nb::handle tokens, nb::handle timeout,
                                nb::handle stream_given) {
        enqueue_tokens_of(given, tokens, stream_given, milliseconds_of(timeout));
    }
    void enqueue_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle stream_given) {
        enqueue_tokens_at(given, pointer, stream_given, std::nullopt);
    }
    void enqueue_awaited_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle timeout,
                                        nb::handle stream_given) {
        enqueue_tokens_at(given, pointer, stream_given, milliseconds_of(timeout));
    }

    void enqueue_tokens_of(nb::handle given, nb::handle tokens, nb::handle stream_given,
                           std::optional<std::uint32_t> timeout_ms) {
        const std::uint64_t step = step_of(given);
        void* const stream = stream_of(stream_given);
        const Array room(tokens, "tokens", Use::write);
        room.require_dimensions(1, "a token for each column");
        room.require_contiguous();
        require_device(room);
        if (room.type() != kInt32)
            throw bad_argument("the elements of tokens are " + name_of(room.type()) + "; allowed: int32");
        use_device([&](croupier_writer* writer) {
            const std::uint32_t columns = begun_.of(step).value_or(info_.max_batch);
            if (room.length(0) < columns) {
                throw bad_argument("the shape of tokens is " + room.shape_text() +
                                   "; allowed: at least the " + std::to_string(columns) +
                                   " columns of step " + std::to_string(step));
            }
            send_tokens(writer, stream, step, timeout_ms, static_cast<std::int32_t*>(room.data()));
        });
    }

    void enqueue_tokens_at(nb::handle given, nb::handle pointer, nb::handle stream_given,
                           std::optional<std::uint32_t> timeout_ms) {
        const std::uint64_t step = step_of(given);
        auto* const tokens = static_cast<std::int32_t*>(pointer_of(pointer));
        void* const stream = stream_of(stream_given);
        use_device([&](croupier_writer* writer) { send_tokens(writer, stream, step, timeout_ms, tokens); });
    }

    void enqueue_randoms(nb::handle stream_given) {
        void* const stream = stream_of(stream_given);
        use_device([&](croupier_writer* writer) {
            checked([&](croupier_error* error) {
                return croupier_writer_enqueue_randoms(writer, stream, error);
            });
        });
    }

    void abandon() {
        held_.use([&](croupier_writer* writer) {
            checked([&](croupier_error* error) { return croupier_writer_abandon(writer, error); });
            begun_.abandon();
        });
    }

    void detach() { held_.take_apart(croupier_writer_detach); }

  private:
    // What stands beside a step's rows.
    struct StepArrays {
        StepArrays(nb::handle rows_given, nb::handle inputs_given, nb::handle parents_given,
                   nb::handle positions_given)
            : row_of(rows_given, "row_of"),
              inputs(inputs_given, "inputs"),
              parents(parents_given, "parents"),
              positions(positions_given, "positions") {}
        void require(const Writer& writer) const {
            const auto columns = writer.begun_.of_next();
            for (const ColumnNumbers* numbers : {&row_of, &inputs, &parents, &positions}) {
                if (numbers->array) writer.require_device(*numbers->array);
                numbers->require_length(columns.value_or(writer.info_.max_batch));
            }
        }
        croupier_rows rows() const {
            croupier_rows all;
            croupier_rows_init(&all);
            all.row_of = row_of.numbers();
            all.inputs = inputs.numbers();
            all.parents = parents.numbers();
            all.positions = positions.numbers();
            return all;
        }

        ColumnNumbers row_of, inputs, parents, positions;
    };

    // The stride of a single row means nothing, and numpy gives any.
    static std::uint64_t row_stride_of(const Array& rows) {
        return static_cast<std::uint64_t>(rows.length(0) > 1 ? rows.stride(0)
                                                             : static_cast<std::int64_t>(rows.length(1)));
    }

    // A GPU's work is only enqueued; a host's is done, and waited for, in the call.
    template <typename Body>
    void use_device(Body&& body) {
        if (info_.device == CROUPIER_WRITER_HOST) return held_.use(body);
        held_.use_briefly(body);
    }

    using Wanted = std::optional<std::pair<std::uint64_t, std::uint32_t>>;

    static croupier_writer* attach(nb::handle segment_path, nb::handle rank, nb::handle device,
                                   nb::handle path, nb::handle store_blocks, nb::handle rows) {
        if (!nb::isinstance<nb::str>(segment_path)) {
            throw bad_argument("segment_path is " + shown(segment_path) +
                               "; allowed: the text of Session.segment_path");
        }
        const auto text = nb::cast<std::string>(segment_path);
        croupier_writer_options options;
        croupier_writer_options_init(&options);
        options.segment_path = text.c_str();
        const auto read = [](auto& to, const char* name, nb::handle value) {
            const auto number = number_of<std::remove_reference_t<decltype(to)>>(value);
            if (!number)
                throw bad_argument(std::string(name) + " is " + shown(value) + "; allowed: a whole number");
            to = *number;
        };
        read(options.rank, "rank", rank);
        read(options.device, "device", device);
        read(options.store_blocks, "store_blocks", store_blocks);
        options.path = number_among(kPaths, "path", path);
        options.rows = number_among(kRows, "rows", rows);
        const nb::gil_scoped_release released;
        croupier_writer* writer = nullptr;
        checked([&](croupier_error* error) { return croupier_writer_attach(&options, &writer, error); });
        return writer;
    }

    static std::uint32_t number_among(const std::array<const char*, 3>& words, const char* name,
                                      nb::handle given) {
        for (std::uint32_t number = 0; number < words.size(); ++number) {
            if (nb::isinstance<nb::str>(given) && nb::cast<std::string>(given) == words[number])
                return number;
        }
        throw bad_argument(std::string(name) + " is " + shown(given) + "; allowed: " + words[0] + ", " +
                           words[1] + " or " + words[2]);
    }

    static WriterState state_of(croupier_writer* writer) {
        WriterState state;
        checked([&](croupier_error* error) { return croupier_writer_get_state(writer, &state, error); });
        return state;
    }

    static Wanted look(croupier_writer* writer, std::uint32_t timeout_ms) {
        std::pair<std::uint64_t, std::uint32_t> wanted;
        const int got = checked([&](croupier_error* error) {
            return croupier_writer_wait_step(writer, timeout_ms, &wanted.first, &wanted.second, error);
        });
        return got == 1 ? Wanted(wanted) : std::nullopt;
    }

    // Who waits would else wait for what cannot come.
    void require_open(croupier_writer* writer) const {
        if (state_of(writer).open != 0) return;
        throw Failure(CROUPIER_ERROR_SESSION_CLOSED,
                      "the session is over for the writer of rank " + std::to_string(info_.rank) +
                          ": it was closed, or another writer or client took over");
    }

    void require_device(const Array& array) const {
        if (array.device() == info_.device) return;
        const auto place = [](std::int32_t device) {
            return device == kHost ? std::string("the host") : "CUDA device " + std::to_string(device);
        };
        throw bad_argument("the place of " + array.name() + " is " + place(array.device()) +
                           "; this writer's device is " + place(info_.device));
    }

    void require_matrix(const Array& matrix, const char* dimensions) const {
        matrix.require_dimensions(2, dimensions);
        require_device(matrix);
        if (!fits(matrix.type(), info_.dtype)) {
            throw bad_argument("the elements of " + matrix.name() + " are " + name_of(matrix.type()) +
                               "; allowed: the session's " + dtype_name(info_.dtype) + ", which is " +
                               elements_of(info_.dtype));
        }
        matrix.require_contiguous();
    }

    void require_rows(const Array& rows) const {
        require_matrix(rows, "(columns, ids)");
        if (rows.length(1) != info_.ids) {
            throw bad_argument("the shape of logits is " + rows.shape_text() + "; allowed: rows of rank " +
                               std::to_string(info_.rank) + "'s " + std::to_string(info_.ids) + " ids");
        }
        if (rows.length(0) > 1 && rows.stride(0) < static_cast<std::int64_t>(info_.ids)) {
            throw bad_argument("rows of logits are " + std::to_string(rows.stride(0)) +
                               " elements apart; allowed: at least their " + std::to_string(info_.ids) +
                               " ids");
        }
    }

    // What the library refuses it remembers itself.
    template <typename Enqueue>
    void or_refused(Enqueue&& enqueue) {
        if (begun_.was_refused() && begun_.count() > 1) {
            throw bad_argument(
                "the last enqueue was refused, and several steps are begun, so that nobody knows "
                "whose rows these are: abandon() them, and begin them again");
        }
        bool is_given = false;
        try {
            enqueue(is_given);
        } catch (...) {
            if (!is_given) begun_.refuse();
            throw;
        }
    }

    void enqueue_rows(croupier_writer* writer, void* stream, const croupier_rows& rows, bool& is_given) {
        is_given = true;
        checked([&](croupier_error* error) {
            return croupier_writer_enqueue_rows(writer, stream, &rows, error);
        });
        begun_.enqueue();
    }

    static std::uint32_t milliseconds_of(nb::handle timeout) {
        const auto seconds = number_of<double>(timeout);
        if (!seconds || !(*seconds >= 0 && *seconds <= 4e6))
            throw bad_argument("timeout is " + shown(timeout) + "; allowed: 0 to 4000000 seconds");
        return static_cast<std::uint32_t>(std::ceil(*seconds * 1000));
    }

    static void send_tokens(croupier_writer* writer, void* stream, std::uint64_t step,
                            std::optional<std::uint32_t> timeout_ms, std::int32_t* tokens) {
        checked([&](croupier_error* error) {
            if (!timeout_ms) return croupier_writer_enqueue_tokens(writer, stream, step, tokens, error);
            return croupier_writer_enqueue_awaited_tokens(writer, stream, step, *timeout_ms, tokens, error);
        });
    }

    Held<croupier_writer> held_;
    WriterInfo info_;
    BegunColumns begun_;
};

}  // namespace

void bind_writer(nb::module_& module) {
    bind_writer_info(module);
    nb::class_<Writer>(module, "Writer")
        .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
             nb::arg("segment_path").none(), nb::kw_only(), nb::arg("rank").none() = 0,
             nb::arg("device").none() = -1, nb::arg("path").none() = "auto",
             nb::arg("store_blocks").none() = 0, nb::arg("rows").none() = "auto",
             nb::sig("def __init__(self, segment_path: str, *, rank: int = 0, device: int = -1, path: str = "
                     "'auto', "
                     "store_blocks: int = 0, rows: str = 'auto') -> None"))
        .def_prop_ro("info", &Writer::info, "its session and its part of it")
        .def_prop_ro("state", &Writer::state, "how far it is")
        .def("wait_step", &Writer::wait_step, nb::arg("timeout").none() = nb::none(),
             nb::sig("def wait_step(self, timeout: float | None = None) -> tuple[int, int] | None"),
             "The oldest step in flight that wants this rank's logits and is not begun, and how many columns "
             "it "
             "has; None where there is none within `timeout` seconds.")
        .def("begin", &Writer::begin, nb::arg("step").none(), nb::sig("def begin(self, step: int) -> bool"),
             "Queues the step for the next enqueue(). False: it is not submitted yet, or all slots are begun "
             "and "
             "not finished.")
        .def("enqueue", &Writer::enqueue, nb::arg("logits").none(), nb::arg("stream").none() = 0,
             nb::kw_only(), nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
             nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
             nb::sig("def enqueue(self, logits: object, stream: int = 0, *, row_of: object | None = None, "
                     "inputs: object | None = None, parents: object | None = None, "
                     "positions: object | None = None) -> None"),
             "Lays the next begun step: (columns, ids) in the session's dtype, by the buffer protocol or "
             "DLPack; "
             "bf16 also as uint16. Rows need not follow each other. On a GPU the work is enqueued on "
             "`stream`, "
             "which orders it after what made the logits; rows beyond the step's columns are not read there. "
             "On "
             "a host there is a row for each column of the step, and no more. Of a step with windows, int32 "
             "arrays on the same device with an entry a column: inputs has the token that each row was "
             "computed from, parents the column that it follows (None: the one before), row_of the column's "
             "row among the logits (None: its own number; -1: it has none), positions where the token that "
             "was fed stands in prompt and output together (None: as the step's record guesses it; a host's "
             "writer does not read them).")
        .def(
            "enqueue_head", &Writer::enqueue_head, nb::arg("hidden").none(), nb::arg("weight").none(),
            nb::arg("logits").none(), nb::arg("stream").none() = 0, nb::kw_only(),
            nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
            nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
            nb::sig("def enqueue_head(self, hidden: object, weight: object, logits: object, stream: int = 0, "
                    "*, row_of: object | None = None, inputs: object | None = None, "
                    "parents: object | None = None, positions: object | None = None) -> None"),
            "The same of logits that the writer computes: hidden, (columns, elements), times the transpose "
            "of weight, (ids, elements), as croupier_writer_enqueue_head() of croupier/writer.h does, into "
            "logits, (columns, info.head_row_elements): there the rank's first id stands at place "
            "info.first_id % 64, and logits that cannot win may be left out. It is for lean steps on a GPU "
            "of compute capability 9.0. row_of counts rows of hidden. Where rows are lent no later work "
            "writes over any of the three until the step is decided.")
        .def("enqueue_pointer", &Writer::enqueue_pointer, nb::arg("pointer").none(),
             nb::arg("row_stride").none(), nb::arg("stream").none() = 0, nb::kw_only(),
             nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
             nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
             nb::sig("def enqueue_pointer(self, pointer: int, row_stride: int, stream: int = 0, *, row_of: "
                     "int | None = None, inputs: int | None = None, parents: int | None = None, positions: "
                     "int | None = None) -> None"),
             "The same of rows and arrays at addresses, rows so many elements apart; nothing of it is "
             "checked.")
        .def("wait_tokens", &Writer::wait_tokens, nb::arg("step").none(),
             nb::arg("timeout").none() = nb::none(),
             nb::sig("def wait_tokens(self, step: int, timeout: float | None = None) -> bool"),
             "Whether every column of a step that this writer began is decided within `timeout` seconds.")
        .def("enqueue_tokens", &Writer::enqueue_tokens, nb::arg("step").none(), nb::arg("tokens").none(),
             nb::arg("stream").none() = 0,
             nb::sig("def enqueue_tokens(self, step: int, tokens: object, stream: int = 0) -> None"),
             "Sends the tokens of a step that wait_tokens() saw decided to an int32 array on the writer's "
             "device; "
             "-1 where a decision is an error.")
        .def("enqueue_tokens_pointer", &Writer::enqueue_tokens_pointer, nb::arg("step").none(),
             nb::arg("pointer").none(), nb::arg("stream").none() = 0,
             nb::sig("def enqueue_tokens_pointer(self, step: int, pointer: int, stream: int = 0) -> None"),
             "The same to an address; nothing of it is checked.")
        .def(
            "enqueue_awaited_tokens", &Writer::enqueue_awaited_tokens, nb::arg("step").none(),
            nb::arg("tokens").none(), nb::arg("timeout").none(), nb::arg("stream").none() = 0,
            nb::sig("def enqueue_awaited_tokens(self, step: int, tokens: object, timeout: float, stream: int "
                    "= 0) -> None"),
            "The same of a step that need not be decided yet: on a GPU what follows in the stream waits for "
            "it, "
            "at most `timeout` seconds, and this call does not. -1 too where no token came in time.")
        .def("enqueue_awaited_tokens_pointer", &Writer::enqueue_awaited_tokens_pointer,
             nb::arg("step").none(), nb::arg("pointer").none(), nb::arg("timeout").none(),
             nb::arg("stream").none() = 0,
             nb::sig(
                 "def enqueue_awaited_tokens_pointer(self, step: int, pointer: int, timeout: float, stream: "
                 "int = 0) -> None"),
             "The same to an address; nothing of it is checked.")
        .def("enqueue_randoms", &Writer::enqueue_randoms, nb::arg("stream").none() = 0,
             nb::sig("def enqueue_randoms(self, stream: int = 0) -> None"),
             "Of rank 0, before the same step's enqueue(), where the session has randoms_supplied.")
        .def("abandon", &Writer::abandon,
             "Forgets the steps that are begun and were not enqueued: they can be begun again.")
        .def("detach", &Writer::detach, "Waits for what was enqueued and lets go of the rank.");
}

}  // namespace croupier::python
