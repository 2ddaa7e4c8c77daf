#include "sampler/hash_race.h"

#include <algorithm>
#include <cmath>

#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/row_sums.h"

namespace croupier::sampler {

// Of those that reach no further than the ceiling, one with the largest maximum.
std::uint32_t HashRace::best_block(const BoundedValues& values) const {
    const auto maxima = workspace_.block_max.first(row_.blocks);
    const auto capped_less = [&](float a, float b) {
        return std::min(a, values.ceiling) < std::min(b, values.ceiling);
    };
    return static_cast<std::uint32_t>(std::max_element(maxima.begin(), maxima.end(), capped_less) -
                                      maxima.begin());
}

// A block's share is exp(its largest score without noise - the best score): its tokens need a noise of -ln of
// that. Every token contends without a best score, or with one that is too large for floats to tell.
std::uint32_t HashRace::list_contenders(double temperature, const BoundedValues& values) {
    const auto maxima = workspace_.block_max.first(row_.blocks);
    const auto shares = workspace_.race_bounds.first(row_.blocks);
    const double highest =
        best_ ? std::max(std::abs(score_) * temperature, std::abs(static_cast<double>(largest_of(maxima))))
              : 0.0;
    if (!best_ || !can_be_weighed(highest, 1.0 / temperature)) {
        std::transform(maxima.begin(), maxima.end(), shares.begin(),
                       [&](float maximum) { return maximum >= values.floor ? 1.0F : 0.0F; });
    } else {
        // What vllm's floats lose of a score, and the weights' error.
        const double slack = 1e-3 + 1e-6 * std::abs(score_);
        std::transform(maxima.begin(), maxima.end(), shares.begin(), [&](float maximum) {
            // Beyond that every token contends.
            const double most = (score_ + kFarthestAbove / 2) * temperature;
            return static_cast<float>(
                std::min({static_cast<double>(maximum), static_cast<double>(values.ceiling), most}));
        });
        weigh_each((score_ - slack) * temperature, 1.0 / temperature, shares, shares);
        for (std::size_t b = 0; b < shares.size(); ++b) {
            if (!(maxima[b] >= values.floor)) shares[b] = 0.0F;
        }
    }
    return list_hashes_within({params_.rng, params_.seed, random_position(request_) - 1U}, shares,
                              workspace_.contenders);
}

}  // namespace croupier::sampler
