// Numbers that Python gave, of any type that is one: int, float, numpy's.
#pragma once

#include <nanobind/nanobind.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace croupier::python {

namespace nb = nanobind;

template <std::floating_point Real>
std::optional<Real> number_of(nb::handle value) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return std::nullopt;
    }
    return static_cast<Real>(number);
}

// Nothing too where `Whole` does not hold it.
template <std::integral Whole>
std::optional<Whole> number_of(nb::handle value) {
    using Widest = std::conditional_t<std::is_signed_v<Whole>, std::int64_t, std::uint64_t>;
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    Widest widest = 0;
    if (index.is_valid()) {
        if constexpr (std::is_signed_v<Whole>) {
            widest = PyLong_AsLongLong(index.ptr());
        } else {
            widest = PyLong_AsUnsignedLongLong(index.ptr());
        }
    }
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return std::nullopt;
    }
    if (!std::in_range<Whole>(widest)) return std::nullopt;
    return static_cast<Whole>(widest);
}

}  // namespace croupier::python
