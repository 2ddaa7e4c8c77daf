#include "html/plot.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "html/canvas.h"
#include "html/page.h"

namespace croupier::html {
namespace {

constexpr int kTicks = 4;

class Scale {
  public:
    explicit Scale(const Plot& plot) : logarithmic_(plot.logarithmic_x) {
        for (const Series& series : plot.series) {
            for (const Point& point : series.points) take_in(point);
        }
        if (plot.from_zero) low_ = std::min(low_, 0.0);
        if (!(high_ > low_)) high_ = low_ + 1.0;
    }

    double x(double value) const {
        const double share = logarithmic_ ? std::log(value / left_) / std::log(right_ / left_)
                                          : (value - left_) / (right_ - left_);
        return kLeft + share * kPlotWidth;
    }
    double y(double value) const { return y_of((value - low_) / (high_ - low_)); }

    std::string ticks() const {
        std::string text;
        for (int i = 0; i <= kTicks; ++i) {
            const double value = low_ + (high_ - low_) * i / kTicks;
            text += label(kLeft - 6, y(value) + 4, "text-anchor=\"end\"", fmt::format("{:.3g}", value));
        }
        for (int i = 0; i <= kTicks; ++i) {
            const double share = static_cast<double>(i) / kTicks;
            const double value =
                logarithmic_ ? left_ * std::pow(right_ / left_, share) : left_ + (right_ - left_) * share;
            text +=
                label(x(value), y_of(0) + 14, i == kTicks ? "text-anchor=\"end\"" : "text-anchor=\"middle\"",
                      fmt::format("{:.0f}", value));
        }
        return text;
    }

  private:
    void take_in(const Point& point) {
        left_ = std::min(left_, point.x);
        right_ = std::max(right_, point.x);
        low_ = std::min(low_, point.y);
        high_ = std::max(high_, point.y);
    }

    bool logarithmic_;
    double left_ = std::numeric_limits<double>::infinity();
    double right_ = -std::numeric_limits<double>::infinity();
    double low_ = std::numeric_limits<double>::infinity();
    double high_ = -std::numeric_limits<double>::infinity();
};

std::string dots(const Series& series, const Scale& scale) {
    std::string text;
    for (const Point& point : series.points) {
        text += fmt::format(
            "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {:.6g} at "
            "{:.6g}</title></circle>\n",
            series.ink == Ink::first ? "dot" : "other", scale.x(point.x), scale.y(point.y),
            escaped(series.name), point.y, point.x);
    }
    return text;
}

std::string curve(const Series& series, const Scale& scale) {
    std::string path;
    for (const Point& point : series.points) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", scale.x(point.x), scale.y(point.y));
    }
    return fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>\n",
                       series.ink == Ink::first ? "curve" : "thin", path, escaped(series.name));
}

std::string mark(const Mark& mark, const Scale& scale) {
    return fmt::format("<path class=\"mark\" d=\"M{:.1f} {} V{}\"/>\n", scale.x(mark.x), kTopMargin,
                       y_of(0)) +
           label(scale.x(mark.x) + 4, kTopMargin + 10, "", mark.name);
}

std::string key(const std::vector<Series>& all) {
    std::string text;
    for (const Series& each : all) {
        text += fmt::format("{}<span class=\"{}\">{} {}</span>", text.empty() ? "" : " &nbsp; ",
                            each.ink == Ink::first ? "first" : "second",
                            each.drawn == Drawn::dots ? "&#9679;" : "&#9473;", escaped(each.name));
    }
    return "<p>" + text + "</p>\n";
}

}  // namespace

std::string plot(const Plot& plot) {
    const Scale scale(plot);
    std::string content = axes(plot.below) + scale.ticks();
    for (const Mark& each : plot.marks) content += mark(each, scale);
    for (const Series& each : plot.series) {
        content += each.drawn == Drawn::dots ? dots(each, scale) : curve(each, scale);
    }
    return key(plot.series) + svg(plot.below, content);
}

std::string logarithmic_bars(const std::string& below, const std::vector<Bar>& bars) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0.0;
    for (const Bar& bar : bars) {
        least = std::min(least, bar.value);
        most = std::max(most, bar.value);
    }
    // Begin at half the smallest value, so that its bar is visible.
    const double bottom = std::log(least / 2.0);
    const double span = std::log(most * 1.5) - bottom;
    const double step = kPlotWidth / static_cast<double>(bars.size());
    std::string content = axes(below);
    double left = kLeft;
    for (const Bar& bar : bars) {
        const double share = (std::log(bar.value) - bottom) / span;
        content += fmt::format(
            "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
            "height=\"{:.1f}\"><title>{}, {}: {:.6g}</title></rect>\n",
            bar.ink == Ink::first ? "dot" : "other", left + step * 0.1, y_of(share), step * 0.8,
            share * kPlotHeight, escaped(bar.group), escaped(bar.name), bar.value);
        const double middle = left + step / 2;
        content += label(middle, y_of(share) - 3, "text-anchor=\"middle\"", fmt::format("{:.4g}", bar.value));
        content += label(middle, y_of(0) + 13, "text-anchor=\"middle\"", bar.name);
        left += step;
    }
    return svg(below, content);
}

}  // namespace croupier::html
