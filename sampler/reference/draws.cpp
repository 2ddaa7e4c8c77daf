#include "sampler/reference/draws.h"

#include <algorithm>
#include <cmath>

#include "sampler/gumbel.h"
#include "sampler/params.h"
#include "sampler/reference/propose.h"
#include "sampler/reference/race.h"
#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

using proto::Rng;
using proto::SamplingParams;

void run_race(const Request& request, const Left& left, Draw& result) {
    result.drawn = race_winner(request, left);
    result.how = "won the race";
}

// The first maximum is the one that stands first in canonical order.
std::size_t first_maximum(const std::vector<Token>& tokens) {
    const auto first = std::min_element(tokens.begin(), tokens.end(), canonically_before);
    return static_cast<std::size_t>(first - tokens.begin());
}

// Prompt and output together, less one: where the token stands that the model was given last.
std::uint32_t input_position(const Request& request) {
    return random_position(request) - 1U;
}

double perturbed(const Request& request, const Token& token, double temperature, double scale) {
    const SamplingParams& params = *request.params;
    const auto id = static_cast<std::uint32_t>(token.id);
    const std::uint32_t hash = murmur_hash(params.seed, input_position(request), id);
    if (params.rng == Rng::sglang) return token.value * scale + sglang_noise(hash);
    const float logit = static_cast<float>(token.value) / static_cast<float>(temperature);
    return static_cast<double>(logit + vllm_noise(hash));
}

std::size_t perturbed_maximum(const Request& request, const Left& left) {
    const double scale = weigher_of(left).scale;
    std::size_t best = 0;
    double highest = perturbed(request, left.tokens[0], left.temperature, scale);
    for (std::size_t i = 1; i < left.tokens.size(); ++i) {
        const double score = perturbed(request, left.tokens[i], left.temperature, scale);
        if (score < highest) continue;
        if (score == highest && canonically_before(left.tokens[best], left.tokens[i])) continue;
        best = i;
        highest = score;
    }
    return best;
}

// The best tokens whose surprise is at most mu, at least one.
std::size_t mirostat_v2_count(const Weights& from, double level) {
    std::size_t kept = 1;
    while (kept < from.masses.size() && surprise_of(from.masses[kept], from.total) <= level) ++kept;
    return kept;
}

std::size_t mirostat_v1_count(const Left& left, std::uint32_t vocab, double level) {
    const Weigher weigh = weigher_of(left);
    std::vector<double> exponents;
    for (std::size_t i = 0; i < left.tokens.size() && i < kMirostatEstimates; ++i) {
        exponents.push_back(weigh.exponent(left.tokens[i].value));
    }
    return static_cast<std::size_t>(mirostat_count(exponents, left.tokens.size(), vocab, level));
}

Draw draw_by_mirostat(const Request& request, std::uint32_t vocab, Left& left, Account& account) {
    const SamplingParams& params = *request.params;
    const double level = mirostat_level(params, request.feedback);
    account.take("mirostat", left, [&] {
        sort_canonically(left);
        left.tokens.resize(params.mirostat == 1 ? mirostat_v1_count(left, vocab, level)
                                                : mirostat_v2_count(weights_of(left), level));
        return sentence("kept what mu = ", level, " allows");
    });
    Draw result;
    result.weights = weights_of(left);
    run_race(request, left, result);
    const double surprise = surprise_of(result.weights.masses[result.drawn], result.weights.total);
    result.feedback = mirostat_feedback(params, level, surprise);
    return result;
}

Draw draw_by_adaptive_p(const Request& request, Left& left, Account& account) {
    const double aim = adaptive_aim(*request.params, request.feedback);
    sort_canonically(left);
    const Weights before = weights_of(left);
    const auto probability = [&before](std::size_t index) {
        return static_cast<double>(before.masses[index]) / static_cast<double>(before.total);
    };
    account.take("adaptive_p", left, [&] {
        for (std::size_t i = 0; i < left.tokens.size(); ++i) {
            left.tokens[i].value = adaptive_logit(probability(i), aim);
        }
        left.temperature = 1.0;
        return sentence("aimed at the probability ", aim);
    });
    Draw result;
    result.weights = weights_of(left);
    run_race(request, left, result);
    result.feedback = adaptive_feedback(*request.params, request.feedback, probability(result.drawn));
    return result;
}

// The SIMPLE paper's draw in our form. Where all proposals were rejected, or few tokens are allowed, they
// race.
void propose_or_race(const Request& request, const Left& row, const Left& left, Draw& result) {
    const auto accepted = allows_few(request) ? std::nullopt : propose(request, row, left);
    if (!accepted) return run_race(request, left, result);
    result.drawn = accepted->token;
    result.how = sentence("accepted proposal ", accepted->number + 1);
}

Draw draw_as_the_rng_says(const Request& request, const Left& row, Left& left) {
    const SamplingParams& params = *request.params;
    if (is_truncated(params)) sort_canonically(left);
    Draw result;
    result.feedback = request.feedback;
    result.weights = weights_of(left);
    if (is_greedy(params)) {
        result.drawn = first_maximum(left.tokens);
        result.how = "took the first maximum";
    } else if (perturbs_logits(params)) {
        result.drawn = perturbed_maximum(request, left);
        result.how = "took the largest of the perturbed logits";
    } else if (params.rng == Rng::shvs && !is_truncated(params)) {
        propose_or_race(request, row, left, result);
    } else {
        run_race(request, left, result);
    }
    return result;
}

}  // namespace

Draw draw(const Request& request, std::uint32_t vocab, const Left& row, Left& left, Account& account) {
    const SamplingParams& params = *request.params;
    Draw result;
    if (has_mirostat(params)) {
        result = draw_by_mirostat(request, vocab, left, account);
    } else if (has_adaptive_p(params)) {
        result = draw_by_adaptive_p(request, left, account);
    } else {
        result = draw_as_the_rng_says(request, row, left);
    }
    account.take("draw", left,
                 [&] { return sentence(result.how, ": token ", left.tokens[result.drawn].id); });
    return result;
}

}  // namespace croupier::sampler::reference
