// What callers give a writer, read and checked.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "croupier/writer.h"
#include "python/extension/array.h"

namespace croupier::python {

// None with the host alone: on a GPU a forgotten stream would read logits before they are written.
void* stream_of(nb::handle given, std::int32_t device);
void* pointer_of(nb::handle given, const std::string& name = "pointer");
const std::int32_t* numbers_at(nb::handle given, const char* name);
std::uint64_t step_of(nb::handle given);
std::uint32_t milliseconds_of(nb::handle timeout);
std::uint32_t number_among(const std::array<const char*, 3>& words, const char* name, nb::handle given);

// Of the place of the session's rows.
void require_device(const Array& array, std::int32_t device);
// Rows of the session's data type there.
void require_matrix(const Array& matrix, const char* dimensions, const croupier_writer_info& info);
// The logits of the rank's ids.
void require_rows(const Array& rows, const croupier_writer_info& info);
std::uint64_t row_stride_of(const Array& rows);

// An int32 for each column, or None.
struct ColumnNumbers {
    ColumnNumbers(nb::handle given, const char* name);
    void require_length(std::size_t columns) const;
    // On the host, where they can be read: each is a row of so many, or -1.
    void require_rows(std::size_t rows) const;
    const std::int32_t* numbers() const;

    std::optional<Array> array;
};

// What stands beside a step's rows.
struct StepArrays {
    StepArrays(nb::handle rows_given, nb::handle inputs_given, nb::handle parents_given,
               nb::handle positions_given);
    void require(std::size_t columns, std::int32_t device) const;
    croupier_rows rows() const;

    ColumnNumbers row_of, inputs, parents, positions;
};

}  // namespace croupier::python
