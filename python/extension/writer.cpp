#include "python/extension/writer.h"

#include <array>
#include <string>
#include <type_traits>

#include "python/extension/deadline.h"
#include "python/extension/numbers.h"
#include "python/extension/writer_arguments.h"

namespace croupier::python {
namespace {

constexpr std::array kPaths = {"auto", "store", "copy"};
constexpr std::array kRows = {"auto", "lent", "copied"};

croupier_writer* attach(nb::handle segment_path, nb::handle rank, nb::handle device, nb::handle path,
                        nb::handle store_blocks, nb::handle rows) {
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

WriterState state_of(croupier_writer* writer) {
    WriterState state;
    checked([&](croupier_error* error) { return croupier_writer_get_state(writer, &state, error); });
    return state;
}

std::optional<WantedStep> look(croupier_writer* writer, std::uint32_t timeout_ms) {
    WantedStep wanted;
    const int got = checked([&](croupier_error* error) {
        return croupier_writer_wait_step(writer, timeout_ms, &wanted.step, &wanted.rows, error);
    });
    return got == 1 ? std::optional(wanted) : std::nullopt;
}

void send_tokens(croupier_writer* writer, void* stream, std::uint64_t step,
                 std::optional<std::uint32_t> timeout_ms, std::int32_t* tokens) {
    checked([&](croupier_error* error) {
        if (!timeout_ms) return croupier_writer_enqueue_tokens(writer, stream, step, tokens, error);
        return croupier_writer_enqueue_awaited_tokens(writer, stream, step, *timeout_ms, tokens, error);
    });
}

}  // namespace

Writer::Writer(nb::handle segment_path, nb::handle rank, nb::handle device, nb::handle path,
               nb::handle store_blocks, nb::handle rows)
    : held_("writer", attach(segment_path, rank, device, path, store_blocks, rows)) {
    info_ = held_.use([](croupier_writer* writer) {
        WriterInfo info;
        checked([&](croupier_error* error) { return croupier_writer_get_info(writer, &info, error); });
        return info;
    });
}

template <typename Body>
void Writer::use_device(Body&& body) {
    if (info_.device == CROUPIER_WRITER_HOST) return held_.use(body);
    held_.use_briefly(body);
}

template <typename Enqueue>
void Writer::or_refused(Enqueue&& enqueue) {
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

WriterState Writer::state() {
    return held_.use_briefly(state_of);
}

std::optional<WantedStep> Writer::wait_step(nb::handle seconds) {
    return wait_in_slices(Deadline(seconds), [&](std::uint32_t slice_ms) {
        return held_.use([&](croupier_writer* writer) { return look(writer, slice_ms); });
    });
}

bool Writer::begin(nb::handle given) {
    const std::uint64_t step = step_of(given);
    return held_.use_briefly([&](croupier_writer* writer) {
        if (begun_.was_refused()) {
            throw bad_argument(
                "the last enqueue was refused, and the step that it was for is begun: enqueue its rows, "
                "or abandon(), before another step is begun");
        }
        // What this step's rows are checked against later is told with the oldest one that wants them. Of a
        // session that has ended, begin itself says why.
        WantedStep wanted;
        const bool is_wanted = croupier_writer_wait_step(writer, 0, &wanted.step, &wanted.rows, nullptr) == 1;
        const int status =
            checked([&](croupier_error* error) { return croupier_writer_begin(writer, step, error); });
        if (status == CROUPIER_WRITER_BUSY) return false;
        const bool told = is_wanted && wanted.step == step;
        begun_.begin(step, told ? std::optional(wanted.rows) : std::nullopt, info_.steps_in_flight);
        return true;
    });
}

void Writer::enqueue(nb::handle logits, nb::handle stream_given, nb::handle row_of, nb::handle inputs,
                     nb::handle parents, nb::handle positions) {
    or_refused([&](bool& is_given) {
        void* stream = stream_of(stream_given, info_.device);
        const Array rows(logits, "logits");
        require_rows(rows, info_);
        const StepArrays arrays(row_of, inputs, parents, positions);
        use_device([&](croupier_writer* writer) {
            const auto columns = begun_.of_next();
            arrays.require(begun_.of_next().value_or(info_.max_batch), info_.device);
            arrays.row_of.require_rows(rows.length(0));
            // A captured graph is replayed past this object: only the host's steps are known to be in
            // order.
            if (info_.device == CROUPIER_WRITER_HOST && columns && !arrays.row_of.array &&
                rows.length(0) != *columns) {
                throw bad_argument("the shape of logits is " + rows.shape_text() + "; allowed: the step's " +
                                   std::to_string(*columns) + " rows of " + std::to_string(info_.ids));
            }
            croupier_rows all = arrays.rows();
            all.logits = rows.data();
            all.row_stride = row_stride_of(rows);
            enqueue_rows(writer, stream, all, is_given);
        });
    });
}

void Writer::enqueue_head(nb::handle hidden, nb::handle weight, nb::handle logits, nb::handle stream_given,
                          nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions) {
    or_refused([&](bool& is_given) {
        void* const stream = stream_of(stream_given, info_.device);
        const Array states(hidden, "hidden");
        const Array head(weight, "weight");
        const Array room(logits, "logits");
        const StepArrays arrays(row_of, inputs, parents, positions);
        require_matrix(states, "(columns, elements)", info_);
        require_matrix(head, "(ids, elements)", info_);
        require_matrix(room, "(columns, head_row_elements)", info_);
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
            arrays.require(begun_.of_next().value_or(info_.max_batch), info_.device);
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

void Writer::enqueue_pointer(nb::handle pointer, nb::handle row_stride, nb::handle stream_given,
                             nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions) {
    or_refused([&](bool& is_given) {
        void* const logits = pointer_of(pointer);
        void* const stream = stream_of(stream_given, info_.device);
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

bool Writer::wait_tokens(nb::handle given, nb::handle seconds) {
    const std::uint64_t step = step_of(given);
    return wait_in_slices(Deadline(seconds), [&](std::uint32_t slice_ms) {
        return held_.use([&](croupier_writer* writer) {
            return checked([&](croupier_error* error) {
                       return croupier_writer_wait_tokens(writer, step, slice_ms, error);
                   }) == 1;
        });
    });
}

void Writer::enqueue_tokens(nb::handle given, nb::handle tokens, nb::handle stream_given) {
    enqueue_tokens_of(given, tokens, stream_given, std::nullopt);
}

void Writer::enqueue_awaited_tokens(nb::handle given, nb::handle tokens, nb::handle stream_given,
                                    nb::handle timeout) {
    enqueue_tokens_of(given, tokens, stream_given, milliseconds_of(timeout));
}

void Writer::enqueue_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle stream_given) {
    enqueue_tokens_at(given, pointer, stream_given, std::nullopt);
}

void Writer::enqueue_awaited_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle stream_given,
                                            nb::handle timeout) {
    enqueue_tokens_at(given, pointer, stream_given, milliseconds_of(timeout));
}

void Writer::enqueue_tokens_of(nb::handle given, nb::handle tokens, nb::handle stream_given,
                               std::optional<std::uint32_t> timeout_ms) {
    const std::uint64_t step = step_of(given);
    void* const stream = stream_of(stream_given, info_.device);
    const Array room(tokens, "tokens", Use::write);
    room.require_dimensions(1, "a token for each column");
    room.require_contiguous();
    require_device(room, info_.device);
    if (room.type() != kInt32)
        throw bad_argument("the elements of tokens are " + name_of(room.type()) + "; allowed: int32");
    use_device([&](croupier_writer* writer) {
        const std::uint32_t columns = begun_.of(step).value_or(info_.max_batch);
        if (room.length(0) < columns) {
            throw bad_argument("the shape of tokens is " + room.shape_text() + "; allowed: at least the " +
                               std::to_string(columns) + " columns of step " + std::to_string(step));
        }
        send_tokens(writer, stream, step, timeout_ms, static_cast<std::int32_t*>(room.data()));
    });
}

void Writer::enqueue_tokens_at(nb::handle given, nb::handle pointer, nb::handle stream_given,
                               std::optional<std::uint32_t> timeout_ms) {
    const std::uint64_t step = step_of(given);
    auto* const tokens = static_cast<std::int32_t*>(pointer_of(pointer));
    void* const stream = stream_of(stream_given, info_.device);
    use_device([&](croupier_writer* writer) { send_tokens(writer, stream, step, timeout_ms, tokens); });
}

void Writer::enqueue_randoms(nb::handle stream_given) {
    void* const stream = stream_of(stream_given, info_.device);
    use_device([&](croupier_writer* writer) {
        checked(
            [&](croupier_error* error) { return croupier_writer_enqueue_randoms(writer, stream, error); });
    });
}

void Writer::abandon() {
    held_.use([&](croupier_writer* writer) {
        checked([&](croupier_error* error) { return croupier_writer_abandon(writer, error); });
        begun_.abandon();
    });
}

void Writer::enqueue_rows(croupier_writer* writer, void* stream, const croupier_rows& rows, bool& is_given) {
    is_given = true;
    checked(
        [&](croupier_error* error) { return croupier_writer_enqueue_rows(writer, stream, &rows, error); });
    begun_.enqueue();
}

}  // namespace croupier::python
