// How long a call waits, given in seconds or None: for ever.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "python/extension/failure.h"

namespace croupier::python {

class Deadline {
  public:
    explicit Deadline(nb::handle seconds) {
        if (seconds.is_none()) return;
        const double given = PyFloat_AsDouble(seconds.ptr());
        if (PyErr_Occurred() != nullptr) PyErr_Clear();
        // Written so that NaN fails, and -1, which is also how a failed conversion reads.
        if (!(given >= 0)) {
            throw bad_argument("timeout is " + shown(seconds) +
                               "; allowed: seconds of at least 0, or None for ever");
        }
        if (given > kForEver) return;
        const auto patience =
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(given));
        end_ = std::chrono::steady_clock::now() + patience;
    }

    bool is_never() const { return !end_; }
    bool has_passed() const { return end_ && std::chrono::steady_clock::now() >= *end_; }

    // So much at a time: between two slices Python handles signals, and other threads have their turn.
    std::uint32_t slice_ms() const {
        if (!end_) return kSliceMs;
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(*end_ - std::chrono::steady_clock::now()).count();
        return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, kSliceMs));
    }

  private:
    static constexpr std::uint32_t kSliceMs = 20;
    static constexpr double kForEver = 1e9;

    std::optional<std::chrono::steady_clock::time_point> end_;
};

// `look` waits at most so many milliseconds and answers something that is false while there is nothing.
template <typename Look>
auto wait_in_slices(const Deadline& deadline, Look&& look) {
    while (true) {
        auto found = look(deadline.slice_ms());
        if (found || deadline.has_passed()) return found;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

}  // namespace croupier::python
