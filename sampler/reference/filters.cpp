#include <algorithm>
#include <numeric>

#include "sampler/gumbel.h"
#include "sampler/params.h"
#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

// How many of the first `sorted` tokens have a mass before them that is below the limit.
std::size_t count_below(const Left& left, std::size_t sorted, const Weigher& weigh, double limit) {
    Mass before = 0;
    std::size_t kept = 0;
    while (kept < sorted && static_cast<double>(before) < limit)
        before += weigh.mass(left.tokens[kept++].value);
    return kept;
}

// A nucleus is small more often than not: the rest of the row need not be sorted.
constexpr std::size_t kFirstSorted = 1024;
constexpr std::size_t kSortedGrowth = 8;

std::string keep_top_n_sigma(const Request& request, Left& left) {
    const double sigma = deviation_of(classes_of(left.tokens));
    const double threshold = weigher_of(left).maximum - request.params->top_n_sigma * sigma;
    std::erase_if(left.tokens, [threshold](const Token& token) { return token.value < threshold; });
    return sentence("kept logits from ", threshold, " on; sigma is ", sigma);
}

std::string set_temperature(const Request& request, Left& left) {
    const proto::SamplingParams& params = *request.params;
    if (params.dynatemp_range <= 0.0 || left.tokens.size() == 1) {
        left.temperature = effective_temperature(params);
        return sentence("set it to ", left.temperature);
    }
    const Weigher weigh = weigher_of(left);
    const double entropy = entropy_of(entropy_sums(left, weigh));
    left.temperature = dynamic_temperature(params, entropy, left.tokens.size());
    return sentence("set it to ", left.temperature, "; the entropy is ", entropy, " nats");
}

std::string keep_min_p(const Request& request, Left& left) {
    const Weigher weigh = weigher_of(left);
    const double least = request.params->min_p;
    std::erase_if(left.tokens, [&](const Token& token) { return !(weigh.weight(token.value) >= least); });
    return sentence("kept probabilities from ", least, " of the largest on");
}

std::string keep_top_k(const Request& request, Left& left) {
    const auto k = static_cast<std::size_t>(request.params->top_k);
    if (left.tokens.size() > k) {
        std::nth_element(left.tokens.begin(), left.tokens.begin() + static_cast<std::ptrdiff_t>(k),
                         left.tokens.end(), canonically_before);
        left.tokens.resize(k);
    }
    return sentence("kept the best ", k);
}

std::string keep_top_p(const Request& request, Left& left) {
    const Weigher weigh = weigher_of(left);
    const double limit = request.params->top_p * static_cast<double>(total_mass(left, weigh));
    std::size_t sorted = 0;
    std::size_t kept = 0;
    while (kept == sorted && sorted < left.tokens.size()) {
        sorted = std::min(std::max(kFirstSorted, sorted * kSortedGrowth), left.tokens.size());
        sort_best(left, sorted);
        kept = count_below(left, sorted, weigh, limit);
    }
    left.tokens.resize(kept);
    return sentence("kept tokens with less than ", request.params->top_p, " of the mass before them");
}

std::string keep_typical_p(const Request& request, Left& left) {
    sort_canonically(left);
    const std::vector<Token> tokens = left.tokens;
    const Weights each = weights_of(left);
    const double entropy = entropy_of(entropy_sums(left, each.weigh));
    const double log_z = log_total(each.total);
    std::vector<double> distance;
    for (const Token& token : left.tokens) {
        distance.push_back(typical_distance(each.weigh.exponent(token.value), log_z, entropy));
    }
    std::vector<std::size_t> nearest(left.tokens.size());
    std::iota(nearest.begin(), nearest.end(), std::size_t{0});
    std::stable_sort(nearest.begin(), nearest.end(),
                     [&distance](std::size_t a, std::size_t b) { return distance[a] < distance[b]; });

    const double limit = request.params->typical_p * static_cast<double>(each.total);
    Mass before = 0;
    left.tokens.clear();
    for (const std::size_t index : nearest) {
        if (static_cast<double>(before) > limit) break;
        left.tokens.push_back(tokens[index]);
        before += each.masses[index];
    }
    sort_canonically(left);
    return sentence("kept what is nearest to the entropy, ", entropy, " nats");
}

std::string exclude_top_choices(const Request& request, Left& left) {
    const proto::SamplingParams& params = *request.params;
    sort_canonically(left);
    const Weights each = weights_of(left);
    const double threshold = params.xtc_threshold * static_cast<double>(each.total);
    std::size_t reaching = 0;
    while (reaching < each.masses.size() && static_cast<double>(each.masses[reaching]) >= threshold) {
        ++reaching;
    }
    const double u =
        open_uniform(proto::random_at(params.seed, random_position(request), params.child, kXtcStream));
    const bool acts = u <= params.xtc_probability && reaching >= 2;
    if (acts) {
        left.tokens.erase(left.tokens.begin(),
                          left.tokens.begin() + static_cast<std::ptrdiff_t>(reaching - 1));
    }
    return sentence(acts ? "dropped all but the last of " : "left alone ", reaching,
                    " tokens that reach the threshold; u = ", u);
}

}  // namespace

std::string take_step(proto::Step step, const Request& request, Left& left) {
    switch (step) {
        case proto::Step::penalties:
            return apply_penalties(request, left);
        case proto::Step::dry:
            return apply_dry(request, left);
        case proto::Step::top_n_sigma:
            return keep_top_n_sigma(request, left);
        case proto::Step::temperature:
            return set_temperature(request, left);
        case proto::Step::min_p:
            return keep_min_p(request, left);
        case proto::Step::top_k:
            return keep_top_k(request, left);
        case proto::Step::top_p:
            return keep_top_p(request, left);
        case proto::Step::typical_p:
            return keep_typical_p(request, left);
        case proto::Step::xtc:
            return exclude_top_choices(request, left);
        case proto::Step::end:
        case proto::Step::count_:
            break;
    }
    return {};
}

}  // namespace croupier::sampler::reference
