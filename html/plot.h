// Plots of measurements: points, curves and bars.
#pragma once

#include <string>
#include <vector>

namespace croupier::html {

struct Point {
    double x;
    double y;
};

enum class Drawn { dots, curve };
// The first and second colour of the page.
enum class Ink { first, second };

struct Series {
    std::string name;
    Drawn drawn;
    Ink ink;
    std::vector<Point> points;  // x ascending
};

struct Mark {
    double x;
    std::string name;
};

struct Plot {
    std::string below;  // labels of x and y
    bool logarithmic_x = false;
    bool from_zero = true;  // the y axis begins at zero
    std::vector<Series> series;
    std::vector<Mark> marks;
};

// At least one series must have two points or more.
std::string plot(const Plot& plot);

struct Bar {
    std::string group;
    std::string name;
    double value;  // above 0
    Ink ink;
};

// Bars on a logarithmic axis, each with its name and value.
std::string logarithmic_bars(const std::string& below, const std::vector<Bar>& bars);

}  // namespace croupier::html
