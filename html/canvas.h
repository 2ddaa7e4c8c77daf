// The area that the plots of a page are drawn on.
#pragma once

#include <string>
#include <string_view>

namespace croupier::html {

inline constexpr double kWidth = 760;
inline constexpr double kHeight = 272;
inline constexpr double kLeft = 56;
inline constexpr double kBottom = 46;
inline constexpr double kTopMargin = 10;
inline constexpr double kPlotWidth = kWidth - kLeft - 10;
inline constexpr double kPlotHeight = kHeight - kBottom - kTopMargin;

// Where a share of the plot's height lies.
double y_of(double share);
// An SVG text: `attributes` as they stand in the element.
std::string label(double x, double y, std::string_view attributes, std::string_view text);
// The axes' lines, and what the horizontal one counts.
std::string axes(std::string_view below);
std::string svg(std::string_view what, std::string_view content);

}  // namespace croupier::html
