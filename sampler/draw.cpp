#include "sampler/draw.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"
#include "sampler/gumbel.h"
#include "sampler/params.h"

namespace croupier::sampler {

using proto::Rng;
using proto::SamplingParams;

namespace {

// The first at whose end the running mass passes the uniform's share.
std::size_t draw_in_order(std::uint32_t random, std::span<const Candidate> all, const Weigher& weigher) {
    Mass total = 0;
    for (const Candidate& each : all) total += weigher.mass(each.value);
    const Mass target = draw_target(random, total);
    Mass before = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        before += weigher.mass(all[i].value);
        if (before > target) return i;
    }
    return all.size() - 1;
}

Mass mass_of_nth(const Survivors& survivors, std::size_t n) {
    for (const EqualClass& each : survivors.classes()) {
        if (n < each.size) return each.mass;
        n -= each.size;
    }
    return 0;
}

Candidate draw_by_mass(const Request& request, const Survivors& survivors) {
    return survivors.member(survivors.place_past(draw_target(request.random, survivors.total())));
}

Candidate draw_mirostat(const SamplingParams& params, const Request& request, Survivors& survivors,
                        Workspace& workspace) {
    const double level = mirostat_level(params, request.feedback);
    if (params.mirostat == 1) {
        std::array<double, kMirostatEstimates> exponents;
        std::size_t known = 0;
        for (const EqualClass& each : survivors.classes()) {
            for (std::uint32_t i = 0; i < each.size && known < exponents.size(); ++i) {
                exponents[known++] = survivors.weigher().exponent(each.value);
            }
        }
        const std::uint64_t k =
            mirostat_count({exponents.data(), known}, survivors.tokens(), workspace.vocab, level);
        survivors.keep_top_k(static_cast<std::uint32_t>(k));
    } else {
        survivors.keep_surprise_up_to(level);
    }
    const Mass total = survivors.total();
    const Survivors::Place drawn = survivors.place_past(draw_target(request.random, total));
    workspace.answer_space.feedback = mirostat_feedback(params, level, surprise_of(drawn.of->mass, total));
    return survivors.member(drawn);
}

// The distribution is replaced by one of the distance to the probability it aims at; the draw keeps the
// order.
Candidate draw_adaptive(const SamplingParams& params, const Request& request, Survivors& survivors,
                        Workspace& workspace) {
    const auto total = static_cast<double>(survivors.total());
    const double aim = adaptive_aim(params, request.feedback);
    const std::uint32_t tokens = survivors.flatten();
    const std::span<Candidate> all = workspace.candidates.first(tokens);
    double best = -std::numeric_limits<double>::infinity();
    for (Candidate& each : all) {
        const auto mass = static_cast<double>(survivors.weigher().mass(each.value));
        each.value = adaptive_logit(mass / total, aim);
        best = std::max(best, each.value);
    }
    const std::size_t index = draw_in_order(request.random, all, {best, 1.0});
    const Candidate drawn = all[index];
    const auto own = static_cast<double>(mass_of_nth(survivors, index));
    workspace.answer_space.feedback = adaptive_feedback(params, request.feedback, own / total);
    survivors = Survivors(workspace, tokens);
    survivors.weigh(1.0);
    return drawn;
}

double perturbed(const SamplingParams& params, const Request& request, const Candidate& candidate,
                 double temperature) {
    const std::uint32_t input = random_position(request) - 1U;
    const std::uint32_t hash = murmur_hash(params.seed, input, candidate.token);
    if (params.rng == Rng::sglang) return candidate.value * (1.0 / temperature) + sglang_noise(hash);
    const float logit = static_cast<float>(candidate.value) / static_cast<float>(temperature);
    return static_cast<double>(logit + vllm_noise(hash));
}

}  // namespace

Candidate draw_survivor(const SamplingParams& params, const Request& request, Survivors& survivors,
                        Workspace& workspace) {
    if (has_mirostat(params)) return draw_mirostat(params, request, survivors, workspace);
    if (has_adaptive_p(params)) return draw_adaptive(params, request, survivors, workspace);
    return draw_by_mass(request, survivors);
}

Candidate draw_in_vocabulary_order(std::uint32_t random, std::uint32_t candidates, double scale,
                                   const Workspace& workspace) {
    const std::span<const Candidate> all = workspace.candidates.first(candidates);
    const auto above = [](const Candidate& a, const Candidate& b) { return a.value < b.value; };
    const Weigher weigher = {std::max_element(all.begin(), all.end(), above)->value, scale};
    return all[draw_in_order(random, all, weigher)];
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
