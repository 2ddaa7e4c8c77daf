#include "tools/plan/step_spans.h"

#include <algorithm>
#include <random>

namespace croupier::tools {
namespace {

constexpr std::uint32_t kSteps = 401;
// When a sampler that has none of its own left takes others' columns (daemon/step_worker.cpp).
constexpr double kLateUs = 25.0;
constexpr double kSharesUntilLate = 2.0;

class ColumnDraw {
  public:
    explicit ColumnDraw(const ColumnTimes& columns) {
        double sum = 0.0;
        std::uint64_t all = 0;
        for (std::size_t bucket = 0; bucket < columns.buckets.size(); ++bucket) {
            all += columns.buckets[bucket];
            sum += static_cast<double>(columns.buckets[bucket]) * (lower(bucket) + upper(bucket)) / 2.0;
            below_.push_back(all);
        }
        if (all > 0 && sum > 0.0) scale_ = columns.mean_us * static_cast<double>(all) / sum;
    }

    double operator()(std::mt19937_64& random) const {
        if (below_.back() == 0) return 0.0;
        const std::uint64_t which = random() % below_.back();
        const auto bucket =
            static_cast<std::size_t>(std::upper_bound(below_.begin(), below_.end(), which) - below_.begin());
        const double within = static_cast<double>(random() >> 11U) * 0x1p-53;
        return scale_ * (lower(bucket) + within * (upper(bucket) - lower(bucket)));
    }

  private:
    static double upper(std::size_t bucket) { return 0.25 * static_cast<double>(1ULL << bucket); }
    static double lower(std::size_t bucket) { return bucket == 0 ? 0.0 : upper(bucket - 1); }

    std::vector<std::uint64_t> below_;
    double scale_ = 1.0;  // so that the mean is the measured one
};

struct Lane {
    std::vector<double> own;  // what is left of its columns; the last one is next
    double now = 0.0;
    double late = 0.0;  // from when on it takes others' columns
};

// Plays the step to its end.
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

std::vector<double> step_spans(const ColumnTimes& columns, std::uint32_t batch, std::uint32_t samplers) {
    const ColumnDraw draw(columns);
    std::mt19937_64 random(20261123);
    std::vector<double> spans;
    std::vector<Lane> lanes(samplers);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
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
