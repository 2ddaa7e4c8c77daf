#include "bench/tvd/softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace croupier::bench {
namespace {

constexpr std::uint32_t kGuides = 1U << 14U;

class Adjusted {
  public:
    explicit Adjusted(const JudgedStep& step) : step_(step), seen_(step.prompt.begin(), step.prompt.end()) {
        for (const std::int32_t token : step.output) {
            seen_.insert(token);
            ++said_[token];
        }
        for (const proto::TokenBias& each : step.bias) bias_[each.token] += static_cast<double>(each.bias);
    }

    double logit(std::int32_t token, double value) const {
        const auto id = static_cast<std::uint32_t>(token);
        if (!step_.mask.empty() && (step_.mask[id / 32] >> (id % 32) & 1U) == 0) {
            return -std::numeric_limits<double>::infinity();
        }
        if (const auto bias = bias_.find(token); bias != bias_.end()) value += bias->second;
        if (seen_.count(token) == 0) return value;
        const double penalty = step_.params.repetition_penalty;
        value = value > 0.0 ? value / penalty : value * penalty;
        const auto said = said_.find(token);
        if (said == said_.end()) return value;
        return value - step_.params.frequency_penalty * said->second - step_.params.presence_penalty;
    }

  private:
    const JudgedStep& step_;
    std::set<std::int32_t> seen_;
    std::map<std::int32_t, int> said_;
    std::map<std::int32_t, double> bias_;
};

}  // namespace

std::vector<double> softmax_of(const measurement::BenchRows& rows, const JudgedStep& step) {
    const Adjusted adjusted(step);
    std::vector<double> weights(rows.vocab());
    double most = -std::numeric_limits<double>::infinity();
    for (std::uint32_t id = 0; id < rows.vocab(); ++id) {
        const std::uint16_t code = rows.row(step.row)[rows.place_of(id)];
        const auto value = static_cast<double>(std::bit_cast<float>(std::uint32_t{code} << 16U));
        weights[id] = adjusted.logit(static_cast<std::int32_t>(id), value) / step.params.temperature;
        most = std::max(most, weights[id]);
    }
    double total = 0.0;
    for (double& weight : weights) total += weight = std::exp(weight - most);
    for (double& weight : weights) weight /= total;
    return weights;
}

PlainDraws::PlainDraws(const std::vector<double>& probabilities) : running_(probabilities.size()) {
    double running = 0.0;
    for (std::size_t i = 0; i < probabilities.size(); ++i) running_[i] = running += probabilities[i];
    std::uint32_t place = 0;
    for (std::uint32_t guide = 0; guide < kGuides; ++guide) {
        while (running_[place] <= static_cast<double>(guide) / kGuides) ++place;
        guide_.push_back(place);
    }
    // Rounding may leave the last sum slightly different from 1.
    const auto last = std::find(running_.begin(), running_.end(), running_.back());
    std::fill(last, running_.end(), 2.0);
}

std::uint32_t PlainDraws::draw(double uniform) const {
    std::uint32_t place = guide_[static_cast<std::uint32_t>(uniform * kGuides)];
    while (running_[place] <= uniform) ++place;
    return place;
}

}  // namespace croupier::bench
