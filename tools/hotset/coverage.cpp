#include "tools/hotset/coverage.h"

#include <algorithm>
#include <numeric>

namespace croupier::tools {
namespace {

constexpr std::uint32_t kFirst = 1024;
constexpr std::uint32_t kFewestSteps = 16;  // a small vocabulary's table still begins at a sixteenth of it

std::vector<std::uint32_t> prefix_sizes(std::uint32_t vocab) {
    std::uint32_t first = kFirst;
    while (first > 1 && first > vocab / kFewestSteps) first /= 2;
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = first; size < vocab; size *= 2) sizes.push_back(size);
    sizes.push_back(vocab);
    return sizes;
}

double share(double part, double whole) {
    return whole > 0.0 ? part / whole : 0.0;
}

}  // namespace

std::vector<Coverage> coverage_of(const proto::HotnessOrder& order, std::uint32_t tp) {
    proto::Geometry geometry;
    geometry.vocab = static_cast<std::uint32_t>(order.ids.size());
    geometry.tp = tp;
    proto::fill_even_shards(geometry);
    const double counted = order.counted();
    const double smoothed = counted + order.smoothing * geometry.vocab;
    std::vector<Coverage> table;
    for (const std::uint32_t hot : prefix_sizes(geometry.vocab)) {
        const double inside = std::accumulate(order.counts.begin(), order.counts.begin() + hot, 0.0);
        table.push_back({hot, share(inside, counted), share(inside + order.smoothing * hot, smoothed),
                         proto::hot_prefixes(geometry, order.ids, hot)});
    }
    return table;
}

std::size_t ids_counted(const proto::HotnessOrder& order) {
    // Counts fall along the order, so that those of zero are its end.
    return static_cast<std::size_t>(std::find(order.counts.begin(), order.counts.end(), 0.0) -
                                    order.counts.begin());
}

nlohmann::ordered_json facts_json(const proto::HotnessOrder& order) {
    return {{"model", order.model},
            {"vocab", order.ids.size()},
            {"tokens", order.counted()},
            {"smoothing", order.smoothing},
            {"ids_counted", ids_counted(order)}};
}

}  // namespace croupier::tools
