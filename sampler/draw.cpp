#include "sampler/draw.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"
#include "sampler/gumbel.h"
#include "sampler/params.h"
#include "sampler/row_mass.h"
#include "sampler/row_sums.h"

namespace croupier::sampler {

using proto::Rng;
using proto::SamplingParams;

double perturbed_score(const SamplingParams& params, const Request& request, const Candidate& candidate,
                       double temperature) noexcept {
    const std::uint32_t input = random_position(request) - 1U;
    const std::uint32_t hash = murmur_hash(params.seed, input, candidate.token);
    if (params.rng == Rng::sglang) return candidate.value * (1.0 / temperature) + sglang_noise(hash);
    const float logit = static_cast<float>(candidate.value) / static_cast<float>(temperature);
    return static_cast<double>(logit + vllm_noise(hash));
}

std::uint64_t mirostat_kept(const SamplingParams& params, const Request& request, const Survivors& best,
                            std::uint64_t left, std::uint32_t vocab) {
    std::array<double, kMirostatEstimates> exponents;
    std::size_t known = 0;
    for (const EqualClass& each : best.classes()) {
        for (std::uint32_t i = 0; i < each.size && known < exponents.size(); ++i) {
            exponents[known++] = best.weigher().exponent(each.value);
        }
    }
    return mirostat_count({exponents.data(), known}, left, vocab, mirostat_level(params, request.feedback));
}

void keep_by_mirostat(const SamplingParams& params, const Request& request, Survivors& survivors,
                      std::uint32_t vocab) {
    if (params.mirostat != 1) return survivors.keep_surprise_up_to(mirostat_level(params, request.feedback));
    survivors.split_best(kMirostatEstimates);
    const std::uint64_t kept = mirostat_kept(params, request, survivors, survivors.tokens(), vocab);
    survivors.keep_top_k(static_cast<std::uint32_t>(kept));
}

// Most blocks hold no likely token: they share a bound. The weights' error moves a logit by less than the
// slack.
void bound_adaptive(std::span<const float> block_max, const AdaptiveLogit& logit, std::span<float> most) {
    constexpr double kUnlikely = 1e-4;
    constexpr double kSlack = 1e-3;
    const Weigher& weigher = logit.weigher;
    const auto bound = [aim = logit.aim](double probability) {
        const double most_of_it = probability < aim ? adaptive_logit(probability, aim) : kAdaptivePeak;
        return static_cast<float>(most_of_it + kSlack);
    };
    const float of_unlikely = bound(kUnlikely);
    if (!can_be_weighed(weigher.maximum, weigher.scale)) {
        std::transform(block_max.begin(), block_max.end(), most.begin(), [](float maximum) {
            const bool empty = maximum == -std::numeric_limits<float>::infinity();
            return empty ? maximum : static_cast<float>(kAdaptivePeak + kSlack);
        });
        return;
    }
    const double share = kMassUnit / logit.total;
    // Values that far above the best are forbidden or lowered; the bound is then the largest logit of all.
    const auto highest = static_cast<float>(weigher.maximum + kFarthestAbove / 2 / weigher.scale);
    std::transform(block_max.begin(), block_max.end(), most.begin(),
                   [highest](float maximum) { return std::min(maximum, highest); });
    weigh_each(weigher.maximum, weigher.scale, most, most);
    for (std::size_t b = 0; b < most.size(); ++b) {
        const double probability = static_cast<double>(most[b]) * share * (1.0 + kSlack);
        const bool empty = block_max[b] == -std::numeric_limits<float>::infinity();
        most[b] = probability < kUnlikely ? of_unlikely : bound(probability);
        if (empty) most[b] = -std::numeric_limits<float>::infinity();
    }
}

proto::Feedback after_mirostat(const SamplingParams& params, const Request& request, Mass drawn, Mass total) {
    return mirostat_feedback(params, mirostat_level(params, request.feedback), surprise_of(drawn, total));
}

Candidate draw_perturbed(const SamplingParams& params, const Request& request, std::uint32_t candidates,
                         double temperature, const Workspace& workspace) {
    const std::span<const Candidate> all = workspace.candidates.first(candidates);
    Candidate best = all.front();
    double highest = perturbed_score(params, request, best, temperature);
    for (const Candidate& each : all.subspan(1)) {
        const double score = perturbed_score(params, request, each, temperature);
        if (score > highest || (score == highest && canonically_before(each, best))) {
            best = each;
            highest = score;
        }
    }
    return best;
}

}  // namespace croupier::sampler
