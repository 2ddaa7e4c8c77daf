// A curve through points that never overshoots them: what rises from point to point rises between them too.
#pragma once

#include <cstddef>
#include <vector>

namespace croupier::hot_sets {

class MonotoneCurve {
  public:
    // `x` ascending, two points or more.
    MonotoneCurve(std::vector<double> x, std::vector<double> y);

    double at(double x) const;
    double slope(double x) const;

  private:
    struct Place {
        std::size_t cell;
        double width;
        double share;  // of the cell, 0 to 1
    };
    Place place_of(double x) const;

    std::vector<double> x_;
    std::vector<double> y_;
    std::vector<double> slopes_;  // at the points
};

}  // namespace croupier::hot_sets
