#include "python/extension/writer_arguments.h"

#include <cmath>

#include "python/extension/numbers.h"
#include "python/extension/open_options.h"

namespace croupier::python {
namespace {

bool fits(ElementType type, std::uint32_t dtype) {
    if (dtype == CROUPIER_BF16) return type == kBfloat16 || type == kUint16;
    return type == (dtype == CROUPIER_FP16 ? kFloat16 : kFloat32);
}

const char* elements_of(std::uint32_t dtype) {
    if (dtype == CROUPIER_BF16) return "bfloat16 by DLPack, or its bits as uint16";
    return dtype == CROUPIER_FP16 ? "float16" : "float32";
}

}  // namespace

void* stream_of(nb::handle given, std::int32_t device) {
    if (given.is_none() && device == CROUPIER_WRITER_HOST) return nullptr;
    const auto stream = number_of<std::uintptr_t>(given);
    if (!stream) {
        throw bad_argument(
            "stream is " + shown(given) +
            "; allowed: the CUDA stream on which the logits are written, or the tokens read, as "
            "a number, such as torch's stream.cuda_stream; 0 is CUDA's default stream");
    }
    return reinterpret_cast<void*>(*stream);  // NOLINT(performance-no-int-to-ptr)
}

void* pointer_of(nb::handle given, const std::string& name) {
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

std::uint32_t milliseconds_of(nb::handle timeout) {
    const auto seconds = number_of<double>(timeout);
    if (!seconds || !(*seconds >= 0 && *seconds <= 4e6))
        throw bad_argument("timeout is " + shown(timeout) + "; allowed: 0 to 4000000 seconds");
    return static_cast<std::uint32_t>(std::ceil(*seconds * 1000));
}

std::uint32_t number_among(const std::array<const char*, 3>& words, const char* name, nb::handle given) {
    for (std::uint32_t number = 0; number < words.size(); ++number) {
        if (nb::isinstance<nb::str>(given) && nb::cast<std::string>(given) == words[number]) return number;
    }
    throw bad_argument(std::string(name) + " is " + shown(given) + "; allowed: " + words[0] + ", " +
                       words[1] + " or " + words[2]);
}

void require_device(const Array& array, std::int32_t device) {
    if (array.device() == device) return;
    const auto place = [](std::int32_t of) {
        return of == kHost ? std::string("the host") : "CUDA device " + std::to_string(of);
    };
    throw bad_argument("the place of " + array.name() + " is " + place(array.device()) +
                       "; this writer's device is " + place(device));
}

void require_matrix(const Array& matrix, const char* dimensions, const croupier_writer_info& info) {
    matrix.require_dimensions(2, dimensions);
    require_device(matrix, info.device);
    if (!fits(matrix.type(), info.dtype)) {
        throw bad_argument("the elements of " + matrix.name() + " are " + name_of(matrix.type()) +
                           "; allowed: the session's " + dtype_name(info.dtype) + ", which is " +
                           elements_of(info.dtype));
    }
    matrix.require_contiguous();
}

void require_rows(const Array& rows, const croupier_writer_info& info) {
    require_matrix(rows, "(columns, ids)", info);
    if (rows.length(1) != info.ids) {
        throw bad_argument("the shape of logits is " + rows.shape_text() + "; allowed: rows of rank " +
                           std::to_string(info.rank) + "'s " + std::to_string(info.ids) + " ids");
    }
    if (rows.length(0) > 1 && rows.stride(0) < static_cast<std::int64_t>(info.ids)) {
        throw bad_argument("rows of logits are " + std::to_string(rows.stride(0)) +
                           " elements apart; allowed: at least their " + std::to_string(info.ids) + " ids");
    }
}

// The stride of a single row means nothing, and numpy gives any.
std::uint64_t row_stride_of(const Array& rows) {
    return static_cast<std::uint64_t>(rows.length(0) > 1 ? rows.stride(0)
                                                         : static_cast<std::int64_t>(rows.length(1)));
}

ColumnNumbers::ColumnNumbers(nb::handle given, const char* name) {
    if (given.is_none()) return;
    array.emplace(given, name);
    array->require_dimensions(1, "a number for each column");
    array->require_contiguous();
    if (array->type() != kInt32) {
        throw bad_argument("the elements of " + array->name() + " are " + name_of(array->type()) +
                           "; allowed: int32");
    }
}

void ColumnNumbers::require_length(std::size_t columns) const {
    if (!array || array->length(0) >= columns) return;
    throw bad_argument("the shape of " + array->name() + " is " + array->shape_text() +
                       "; allowed: at least the step's " + std::to_string(columns) + " columns");
}

void ColumnNumbers::require_rows(std::size_t rows) const {
    if (!array || array->device() != kHost) return;
    for (std::size_t column = 0; column < array->length(0); ++column) {
        const std::int32_t row = numbers()[column];
        if (row < -1 || row >= static_cast<std::int64_t>(rows)) {
            throw bad_argument(array->name() + "[" + std::to_string(column) + "] is " + std::to_string(row) +
                               "; allowed: -1 to " + std::to_string(rows) + " - 1, a row of logits");
        }
    }
}

const std::int32_t* ColumnNumbers::numbers() const {
    return array ? static_cast<const std::int32_t*>(array->data()) : nullptr;
}

StepArrays::StepArrays(nb::handle rows_given, nb::handle inputs_given, nb::handle parents_given,
                       nb::handle positions_given)
    : row_of(rows_given, "row_of"),
      inputs(inputs_given, "inputs"),
      parents(parents_given, "parents"),
      positions(positions_given, "positions") {}

void StepArrays::require(std::size_t columns, std::int32_t device) const {
    for (const ColumnNumbers* numbers : {&row_of, &inputs, &parents, &positions}) {
        if (numbers->array) require_device(*numbers->array, device);
        numbers->require_length(columns);
    }
}

croupier_rows StepArrays::rows() const {
    croupier_rows all;
    croupier_rows_init(&all);
    all.row_of = row_of.numbers();
    all.inputs = inputs.numbers();
    all.parents = parents.numbers();
    all.positions = positions.numbers();
    return all;
}

}  // namespace croupier::python
