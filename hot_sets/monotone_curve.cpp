#include "hot_sets/monotone_curve.h"

#include <algorithm>
#include <utility>

namespace croupier::hot_sets {

// Cubic pieces with Fritsch's and Butland's slopes: a weighted harmonic mean of the two chords, and zero
// where these have different signs.
MonotoneCurve::MonotoneCurve(std::vector<double> x, std::vector<double> y)
    : x_(std::move(x)), y_(std::move(y)), slopes_(x_.size()) {
    const auto chord = [&](std::size_t cell) {
        return (y_[cell + 1] - y_[cell]) / (x_[cell + 1] - x_[cell]);
    };
    const std::size_t last = x_.size() - 1;
    slopes_.front() = chord(0);
    slopes_.back() = chord(last - 1);
    for (std::size_t i = 1; i < last; ++i) {
        const double before = chord(i - 1);
        const double after = chord(i);
        if (before * after <= 0.0) continue;
        const double left = x_[i] - x_[i - 1];
        const double right = x_[i + 1] - x_[i];
        slopes_[i] = 3.0 * (left + right) / ((2.0 * right + left) / before + (right + 2.0 * left) / after);
    }
}

MonotoneCurve::Place MonotoneCurve::place_of(double x) const {
    const auto above = std::upper_bound(x_.begin() + 1, x_.end() - 1, x);
    const auto cell = static_cast<std::size_t>(above - x_.begin()) - 1;
    const double width = x_[cell + 1] - x_[cell];
    return {cell, width, std::clamp((x - x_[cell]) / width, 0.0, 1.0)};
}

double MonotoneCurve::at(double x) const {
    const auto [i, width, t] = place_of(x);
    const double rest = 1.0 - t;
    return y_[i] * (1.0 + 2.0 * t) * rest * rest + y_[i + 1] * t * t * (3.0 - 2.0 * t) +
           width * t * rest * (slopes_[i] * rest - slopes_[i + 1] * t);
}

double MonotoneCurve::slope(double x) const {
    const auto [i, width, t] = place_of(x);
    return (y_[i + 1] - y_[i]) / width * 6.0 * t * (1.0 - t) + slopes_[i] * (1.0 - t) * (1.0 - 3.0 * t) +
           slopes_[i + 1] * t * (3.0 * t - 2.0);
}

}  // namespace croupier::hot_sets
