// The drawing area of a page's plots.
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

// The y coordinate of a share of the plot's height.
double y_of(double share);
// An SVG text element with these attributes.
std::string label(double x, double y, std::string_view attributes, std::string_view text);
// The lines of the axes, and the label of the horizontal axis.
std::string axes(std::string_view below);
std::string svg(std::string_view what, std::string_view content);

}  // namespace croupier::html
