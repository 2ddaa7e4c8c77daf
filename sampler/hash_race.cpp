#include "sampler/hash_race.h"

#include <algorithm>
#include <cmath>

#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/row_sums.h"

namespace croupier::sampler {

// A score that the winner nearly always reaches: the tokens weigh together at least as much as their blocks'
// largest, and e to the best score is that weight over an exponential, which is seldom above 4.
double HashRace::likely_score(double temperature, const BoundedValues& values) {
    const auto maxima = workspace_.block_max.first(row_.blocks);
    const auto weights = workspace_.race_bounds.first(row_.blocks);
    const double highest = std::min(largest_of(maxima), values.ceiling);
    const double scale = 1.0 / temperature;
    if (!(highest > kLeastScore) || !can_be_weighed(highest, scale)) return kLeastScore;
    std::transform(maxima.begin(), maxima.end(), weights.begin(),
                   [&](float maximum) { return std::min(maximum, values.ceiling); });
    weigh_each(highest, scale, weights, weights);
    double total = 0.0;
    for (std::size_t b = 0; b < weights.size(); ++b) {
        total += maxima[b] >= values.floor ? static_cast<double>(weights[b]) : 0.0;
    }
    return total > 0.0 ? highest * scale + std::log(total / 4.0) : kLeastScore;
}

// Lists the tokens whose score may be `least` or more. A block's share is exp(its largest score without noise
// - least): its tokens need a noise of -ln of that. Where floats cannot tell, every token contends.
std::uint32_t HashRace::list_contenders(double temperature, const BoundedValues& values, double least) {
    const auto maxima = workspace_.block_max.first(row_.blocks);
    const auto shares = workspace_.race_bounds.first(row_.blocks);
    const double highest =
        std::max(std::abs(least) * temperature, std::abs(static_cast<double>(largest_of(maxima))));
    if (!can_be_weighed(highest, 1.0 / temperature)) {
        std::transform(maxima.begin(), maxima.end(), shares.begin(),
                       [&](float maximum) { return maximum >= values.floor ? 1.0F : 0.0F; });
    } else {
        // What vllm's floats lose of a score, and the weights' error.
        const double slack = 1e-3 + 1e-6 * std::abs(least);
        // Beyond that every token contends.
        const double most = (least + kFarthestAbove / 2) * temperature;
        const auto ceiling = static_cast<float>(std::min(static_cast<double>(values.ceiling), most));
        std::transform(maxima.begin(), maxima.end(), shares.begin(),
                       [&](float maximum) { return std::min(maximum, ceiling); });
        weigh_each((least - slack) * temperature, 1.0 / temperature, shares, shares);
        for (std::size_t b = 0; b < shares.size(); ++b) {
            if (!(maxima[b] >= values.floor)) shares[b] = 0.0F;
        }
    }
    return list_hashes_within({params_.rng, params_.seed, random_position(request_) - 1U}, shares,
                              workspace_.contenders);
}

}  // namespace croupier::sampler
