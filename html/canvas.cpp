#include "html/canvas.h"

#include <spdlog/fmt/fmt.h>

#include "html/page.h"

namespace croupier::html {

double y_of(double share) {
    return kTopMargin + (1.0 - share) * kPlotHeight;
}

std::string label(double x, double y, std::string_view attributes, std::string_view text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

std::string axes(std::string_view below) {
    return fmt::format("<path class=\"axis\" d=\"M{0} {1} V{2} H{3}\"/>\n", kLeft, kTopMargin, y_of(0),
                       kLeft + kPlotWidth) +
           label(kLeft + kPlotWidth / 2, kHeight - 2, "text-anchor=\"middle\"", below);
}

std::string svg(std::string_view what, std::string_view content) {
    return fmt::format(
        "<div class=\"plot\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg></div>\n",
        kWidth, kHeight, escaped(what), content);
}

}  // namespace croupier::html
