#include "sampler/draw.h"

#include <array>
#include <span>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"
#include "sampler/gumbel.h"
#include "sampler/params.h"

namespace croupier::sampler {

using proto::Rng;
using proto::SamplingParams;

namespace {

double perturbed(const SamplingParams& params, const Request& request, const Candidate& candidate,
                 double temperature) {
    const std::uint32_t input = random_position(request) - 1U;
    const std::uint32_t hash = murmur_hash(params.seed, input, candidate.token);
    if (params.rng == Rng::sglang) return candidate.value * (1.0 / temperature) + sglang_noise(hash);
    const float logit = static_cast<float>(candidate.value) / static_cast<float>(temperature);
    return static_cast<double>(logit + vllm_noise(hash));
}

}  // namespace

double draw_temperature(const SamplingParams& params) noexcept {
    return takes_step(params, proto::Step::temperature) ? effective_temperature(params) : 1.0;
}

void keep_by_mirostat(const SamplingParams& params, const Request& request, Survivors& survivors,
                      std::uint32_t vocab) {
    const double level = mirostat_level(params, request.feedback);
    if (params.mirostat != 1) return survivors.keep_surprise_up_to(level);
    std::array<double, kMirostatEstimates> exponents;
    std::size_t known = 0;
    for (const EqualClass& each : survivors.classes()) {
        for (std::uint32_t i = 0; i < each.size && known < exponents.size(); ++i) {
            exponents[known++] = survivors.weigher().exponent(each.value);
        }
    }
    const std::uint64_t k = mirostat_count({exponents.data(), known}, survivors.tokens(), vocab, level);
    survivors.keep_top_k(static_cast<std::uint32_t>(k));
}

proto::Feedback after_mirostat(const SamplingParams& params, const Request& request, Mass drawn, Mass total) {
    return mirostat_feedback(params, mirostat_level(params, request.feedback), surprise_of(drawn, total));
}

Candidate draw_perturbed(const SamplingParams& params, const Request& request, std::uint32_t candidates,
                         double temperature, const Workspace& workspace) {
    const std::span<const Candidate> all = workspace.candidates.first(candidates);
    Candidate best = all.front();
    double highest = perturbed(params, request, best, temperature);
    for (const Candidate& each : all.subspan(1)) {
        const double score = perturbed(params, request, each, temperature);
        if (score > highest || (score == highest && canonically_before(each, best))) {
            best = each;
            highest = score;
        }
    }
    return best;
}

}  // namespace croupier::sampler
