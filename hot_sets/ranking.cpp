#include "hot_sets/ranking.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace croupier::hot_sets {

proto::HotnessOrder rank_by_count(std::string model, double smoothing, std::span<const double> count_of_id) {
    proto::HotnessOrder order{std::move(model), smoothing, std::vector<std::int32_t>(count_of_id.size()), {}};
    std::iota(order.ids.begin(), order.ids.end(), 0);
    const auto count = [&](std::int32_t id) { return count_of_id[static_cast<std::size_t>(id)]; };
    std::stable_sort(order.ids.begin(), order.ids.end(),
                     [&](std::int32_t a, std::int32_t b) { return count(a) > count(b); });
    order.counts.reserve(order.ids.size());
    for (const std::int32_t id : order.ids) order.counts.push_back(count(id));
    return order;
}

}  // namespace croupier::hot_sets
