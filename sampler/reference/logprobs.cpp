#include "sampler/reference/logprobs.h"

#include <algorithm>

namespace croupier::sampler::reference {
namespace {

std::uint32_t rank_of(const std::vector<Token>& tokens, const Token& token) {
    const auto above = std::count_if(tokens.begin(), tokens.end(),
                                     [&token](const Token& other) { return other.value > token.value; });
    return static_cast<std::uint32_t>(above) + 1U;
}

}  // namespace

std::vector<RankedLogprob> ranked_logprobs(const Left& left, std::int32_t drawn, std::uint32_t count) {
    const Weigher weigh = weigher_of(left);
    const double log_z = log_total(total_mass(left, weigh));
    const auto ranked = [&](const Token& token, std::uint32_t rank) {
        return RankedLogprob{token.id, static_cast<float>(weigh.exponent(token.value) - log_z), rank};
    };
    const auto own = std::find_if(left.tokens.begin(), left.tokens.end(),
                                  [drawn](const Token& token) { return token.id == drawn; });
    std::vector<RankedLogprob> result = {ranked(*own, rank_of(left.tokens, *own))};

    std::vector<Token> best(std::min<std::size_t>(count, left.tokens.size()));
    std::partial_sort_copy(left.tokens.begin(), left.tokens.end(), best.begin(), best.end(),
                           canonically_before);
    // All that are above one of the best are themselves among the best.
    for (const Token& token : best) result.push_back(ranked(token, rank_of(best, token)));
    return result;
}

std::uint32_t rank_with_ties(const Left& left, std::int32_t drawn) {
    const auto own = std::find_if(left.tokens.begin(), left.tokens.end(),
                                  [drawn](const Token& token) { return token.id == drawn; });
    const auto above = std::count_if(left.tokens.begin(), left.tokens.end(),
                                     [own](const Token& other) { return other.value >= own->value; });
    return static_cast<std::uint32_t>(above);
}

}  // namespace croupier::sampler::reference
