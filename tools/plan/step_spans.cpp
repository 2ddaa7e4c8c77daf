#include "tools/plan/step_spans.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace croupier::tools {
namespace {

// Large steps need fewer simulations: their medians vary less.
constexpr std::uint32_t kMostSteps = 401;
constexpr std::uint32_t kLeastSteps = 41;
constexpr std::uint32_t kMostWork = 4'000'000;
// When an idle sampler takes columns of others (daemon/worker/step_worker.cpp).
constexpr double kLateUs = 25.0;
constexpr double kSharesUntilLate = 2.0;

double upper_us(std::size_t bucket) {
    return 0.25 * static_cast<double>(1ULL << bucket);
}
double lower_us(std::size_t bucket) {
    return bucket == 0 ? 0.0 : upper_us(bucket - 1);
}

class ColumnDraw {
  public:
    explicit ColumnDraw(const ColumnTimes& columns) {
        std::uint64_t all = 0;
        for (const std::uint64_t count : columns.buckets) below_.push_back(all += count);
    }

    double operator()(std::mt19937_64& random) const {
        if (below_.back() == 0) return 0.0;
        const std::uint64_t which = random() % below_.back();
        const auto bucket =
            static_cast<std::size_t>(std::upper_bound(below_.begin(), below_.end(), which) - below_.begin());
        const double within = static_cast<double>(random() >> 11U) * 0x1p-53;
        return lower_us(bucket) + within * (upper_us(bucket) - lower_us(bucket));
    }

  private:
    std::vector<std::uint64_t> below_;
};

struct Lane {
    std::vector<double> own;  // its remaining columns; the last one is next
    double now = 0.0;
    double late = 0.0;  // when it begins to take columns of others
};

// Simulates the step to its end.
double span_of(std::vector<Lane>& lanes) {
    double span = 0.0;
    while (true) {
        const auto left = [](const Lane& a, const Lane& b) { return a.own.size() < b.own.size(); };
        Lane& fullest = *std::max_element(lanes.begin(), lanes.end(), left);
        if (fullest.own.empty()) return span;
        const auto when = [](const Lane& lane) {
            return lane.own.empty() ? std::max(lane.now, lane.late) : lane.now;
        };
        Lane& next = *std::min_element(lanes.begin(), lanes.end(),
                                       [&](const Lane& a, const Lane& b) { return when(a) < when(b); });
        Lane& from = next.own.empty() ? fullest : next;
        next.now = when(next) + from.own.back();
        from.own.pop_back();
        span = std::max(span, next.now);
    }
}

}  // namespace

double ColumnTimes::usual_us() const {
    const std::uint64_t all = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
    const double counted = 0.95 * static_cast<double>(all);
    double left = counted;
    double sum = 0.0;
    for (std::size_t bucket = 0; bucket < buckets.size() && left > 0.0; ++bucket) {
        const double taken = std::min(left, static_cast<double>(buckets[bucket]));
        sum += taken * (lower_us(bucket) + upper_us(bucket)) / 2.0;
        left -= taken;
    }
    return counted > 0.0 ? sum / counted : 0.0;
}

std::vector<double> step_spans(const ColumnTimes& columns, std::uint32_t batch, std::uint32_t samplers) {
    const ColumnDraw draw(columns);
    std::mt19937_64 random(20261123);
    std::vector<double> spans;
    std::vector<Lane> lanes(samplers);
    const std::uint32_t steps = std::clamp(kMostWork / (batch * samplers), kLeastSteps, kMostSteps);
    for (std::uint32_t step = 0; step < steps; ++step) {
        for (Lane& lane : lanes) lane = {};
        for (std::uint32_t column = 0; column < batch; ++column)
            lanes[column % samplers].own.push_back(draw(random));
        for (Lane& lane : lanes) {
            lane.late = kLateUs + kSharesUntilLate * columns.mean_us * static_cast<double>(lane.own.size());
        }
        spans.push_back(span_of(lanes));
    }
    std::sort(spans.begin(), spans.end());
    return spans;
}

double median_of(const std::vector<double>& ascending) {
    return ascending.empty() ? 0.0 : ascending[ascending.size() / 2];
}

}  // namespace croupier::tools
