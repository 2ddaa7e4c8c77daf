// Plots of measurements: points and curves over a size, and bars.
#pragma once

#include <string>
#include <vector>

namespace croupier::html {

struct Point {
    double x;
    double y;
};

enum class Drawn { dots, curve };
// First and second colour of the page.
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
    std::string below;  // what x and y are
    bool logarithmic_x = false;
    bool from_zero = true;  // y's axis
    std::vector<Series> series;
    std::vector<Mark> marks;
};

// At least one series has two places or more.
std::string plot(const Plot& plot);

struct Bar {
    std::string group;
    std::string name;
    double value;  // above 0
    Ink ink;
};

// On a logarithmic axis: each bar is named and its value told.
std::string logarithmic_bars(const std::string& below, const std::vector<Bar>& bars);

}  // namespace croupier::html
