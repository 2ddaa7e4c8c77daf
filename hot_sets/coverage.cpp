#include "hot_sets/coverage.h"

#include <algorithm>
#include <span>

namespace croupier::hot_sets {
namespace {

constexpr std::uint32_t kFirst = 1024;
constexpr std::uint32_t kFewestSteps = 16;  // a small vocabulary's table still begins at a sixteenth of it

std::vector<std::uint32_t> prefix_sizes(std::uint32_t vocab) {
    std::uint32_t first = kFirst;
    while (first > proto::kBlockIds && first > vocab / kFewestSteps) first /= 2;
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = first; size < vocab; size *= 2) sizes.push_back(size);
    sizes.push_back(vocab);
    return sizes;
}

// What was counted in the first blocks of the order, from none to all.
std::vector<double> running_counts(const proto::HotnessOrder& order, std::span<const std::uint32_t> blocks) {
    std::vector<double> of_block(blocks.size());
    for (std::size_t i = 0; i < order.ids.size(); ++i) {
        of_block[static_cast<std::size_t>(order.ids[i]) / proto::kBlockIds] += order.counts[i];
    }
    std::vector<double> running = {0.0};
    for (const std::uint32_t block : blocks) running.push_back(running.back() + of_block[block]);
    return running;
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
    const std::vector<std::uint32_t> blocks = proto::rank_blocks(order);
    const std::vector<double> inside = running_counts(order, blocks);
    for (const std::uint32_t hot : prefix_sizes(geometry.vocab)) {
        const std::size_t some = proto::blocks_of(hot);
        const double ids =
            std::min(static_cast<double>(some * proto::kBlockIds), static_cast<double>(geometry.vocab));
        table.push_back({hot, share(inside[some], counted),
                         share(inside[some] + order.smoothing * ids, smoothed),
                         proto::hot_prefixes(geometry, blocks, hot)});
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

}  // namespace croupier::hot_sets
