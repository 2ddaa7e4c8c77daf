#include <spdlog/fmt/fmt.h>

#include "html/page.h"
#include "html/plot.h"
#include "tools/hotset/size.h"

namespace croupier::tools {
namespace {

using html::Drawn;
using html::Ink;
using html::Point;

// Points of a smooth curve between two sizes.
constexpr int kPlacesInCell = 16;

template <typename Value>
std::vector<Point> points(const SizeResults& results, Value value) {
    std::vector<Point> all;
    for (const hot_sets::SizedCost& each : results.grid)
        all.push_back({static_cast<double>(each.hot), value(each)});
    return all;
}

template <typename Value>
std::vector<Point> smooth(const SizeResults& results, Value value) {
    std::vector<Point> all;
    for (std::size_t cell = 0; cell + 1 < results.grid.size(); ++cell) {
        const double first = results.grid[cell].hot;
        const double width = (results.grid[cell + 1].hot - first) / kPlacesInCell;
        for (int i = 0; i <= kPlacesInCell; ++i) all.push_back({first + width * i, value(first + width * i)});
    }
    return all;
}

html::Mark best_mark(const SizeResults& results) {
    const auto hot = results.grid[results.best.place].hot;
    return {static_cast<double>(hot), fmt::format("H* = {}", hot)};
}

std::string cost_plots(const SizeResults& results) {
    const auto measured = points(results, [](const hot_sets::SizedCost& each) { return each.hot_path_us; });
    const auto fitted = smooth(results, [&](double hot) { return results.hot_path.us(hot); });
    const auto residuals = points(results, [&](const hot_sets::SizedCost& each) {
        return each.hot_path_us - results.hot_path.us(each.hot);
    });
    std::string text = "<h2>Cost of the hot path</h2>\n";
    text += fmt::format("<p>T(H) = {:.3f} &micro;s + {:.4f} ns &times; H, R&sup2; = {:.4f}.</p>\n",
                        results.hot_path.c0, results.hot_path.c * 1e3, results.hot_path.r2);
    text += html::plot({"H; microseconds per draw",
                        false,
                        true,
                        {{"least squares", Drawn::curve, Ink::second, fitted},
                         {"measured hot path", Drawn::dots, Ink::first, measured}},
                        {}});
    return text + html::plot({"H; residual in microseconds",
                              true,
                              true,
                              {{"residuals", Drawn::dots, Ink::first, residuals}},
                              {}});
}

std::string coverage_plots(const SizeResults& results) {
    const auto alpha = points(results, [](const hot_sets::SizedCost& each) { return each.alpha; });
    const auto proposals = points(results, [](const hot_sets::SizedCost& each) { return each.proposals; });
    std::string text = "<h2>Coverage of a hot set</h2>\n";
    text += html::plot(
        {"H; mean share of the probability mass",
         true,
         true,
         {{"alpha(H)", Drawn::curve, Ink::first, alpha}, {"measured sizes", Drawn::dots, Ink::first, alpha}},
         {}});
    return text + html::plot({"H; proposals per draw",
                              true,
                              true,
                              {{"rho(H)", Drawn::curve, Ink::first, proposals},
                               {"measured sizes", Drawn::dots, Ink::first, proposals}},
                              {}});
}

std::string choice_plots(const SizeResults& results) {
    const auto expected = smooth(results, [&](double hot) { return results.expected.us(hot); });
    const auto mean = points(results, [](const hot_sets::SizedCost& each) { return each.mean_us; });
    const auto expected_rate = smooth(results, [&](double hot) { return 1e6 / results.expected.us(hot); });
    const auto rate = points(results, [](const hot_sets::SizedCost& each) { return 1e6 / each.mean_us; });
    const double own = 1e6 / results.own_choice.mean_us();
    const std::vector<Point> own_rate = {{static_cast<double>(results.grid.front().hot), own},
                                         {static_cast<double>(results.grid.back().hot), own}};
    std::string text = "<h2>Best size</h2>\n";
    text += html::plot(
        {"H; microseconds per draw",
         true,
         true,
         {{"F(H)", Drawn::curve, Ink::first, expected}, {"measured mean", Drawn::dots, Ink::second, mean}},
         {best_mark(results)}});
    return text + html::plot({"H; draws per second",
                              true,
                              true,
                              {{"1 / F(H)", Drawn::curve, Ink::first, expected_rate},
                               {"measured", Drawn::dots, Ink::second, rate},
                               {"blocks chosen per row", Drawn::curve, Ink::second, own_rate}},
                              {best_mark(results)}});
}

}  // namespace

std::string size_page(const SizeResults& results) {
    return html::page("Size of a hot set", "<pre>" + html::escaped(size_table(results)) + "</pre>\n" +
                                               cost_plots(results) + coverage_plots(results) +
                                               choice_plots(results));
}

}  // namespace croupier::tools
