// Compares llama.cpp's own chain with docs/examples/llama_sampler.h: the candidates that are left to draw
// from, and their probabilities, for random requests, histories and rows.
//
//   agree REQUESTS [FIRST]
//
// Prints each request whose candidates differ in more than the rounding of a threshold, and ends with 1 if
// there are any. llama.cpp sums in fp32, so the last candidate of top-p or typical-p may differ.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "llama_sampler.h"

namespace {

using Chain = std::unique_ptr<llama_sampler, void (*)(llama_sampler*)>;
using Left = std::map<llama_token, double>;

// fp32 sums of up to a thousand probabilities.
constexpr double kRounding = 2e-4;

struct Request {
    std::int32_t vocab;
    croupier_llama::Options options;
    std::vector<llama_token> history;
    std::vector<float> row;
    std::string said;

    double uniform(double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(random);
    }
    bool chance(double p) { return uniform(0, 1) < p; }
    std::int32_t below(std::int32_t end) {
        return std::uniform_int_distribution<std::int32_t>(0, end - 1)(random);
    }

    std::mt19937 random;
};

void say(Request& request, const char* name, double value) {
    char text[64];
    std::snprintf(text, sizeof(text), " %s=%g", name, value);
    request.said += text;
}

// A parameter as llama.cpp has it, in fp32.
float pick(Request& request, const char* name, double low, double high) {
    const auto value = static_cast<float>(request.uniform(low, high));
    say(request, name, value);
    return value;
}

// One step of both: llama.cpp's sampler goes to the chain, and the same to our options.
void add_step(Request& request, std::uint8_t step, llama_sampler* chain) {
    croupier_params& params = request.options.params;
    const auto add = [chain](llama_sampler* sampler) { llama_sampler_chain_add(chain, sampler); };
    switch (step) {
        case CROUPIER_ORDER_PENALTIES: {
            const std::int32_t last_n = request.chance(0.5) ? 64 : request.below(40);
            say(request, "penalty_last_n", last_n);
            const float repeat = pick(request, "repeat", 0.8, 1.5);
            const float frequency = pick(request, "frequency", -0.5, 1.0);
            const float presence = pick(request, "presence", -0.5, 1.0);
            params.penalty_last_n = last_n;
            params.repetition_penalty = repeat;
            params.frequency_penalty = frequency;
            params.presence_penalty = presence;
            return add(llama_sampler_init_penalties(request.vocab, last_n, repeat, frequency, presence));
        }
        case CROUPIER_ORDER_TOP_N_SIGMA: {
            const float n = pick(request, "top_n_sigma", 0.5, 3.0);
            params.top_n_sigma = n;
            return add(llama_sampler_init_top_n_sigma(n));
        }
        case CROUPIER_ORDER_TOP_K: {
            const std::int32_t k = 1 + request.below(request.chance(0.5) ? 50 : request.vocab + 10);
            say(request, "top_k", k);
            params.top_k = k;
            return add(llama_sampler_init_top_k(k));
        }
        case CROUPIER_ORDER_TYPICAL_P: {
            const float p = pick(request, "typical_p", 0.05, 1.0);
            params.typical_p = p;
            return add(llama_sampler_init_typical(p, 1));
        }
        case CROUPIER_ORDER_TOP_P: {
            const float p = pick(request, "top_p", 0.05, 1.0);
            params.top_p = p;
            return add(llama_sampler_init_top_p(p, 1));
        }
        case CROUPIER_ORDER_MIN_P: {
            const float p = pick(request, "min_p", 0.0, 0.3);
            params.min_p = p;
            return add(llama_sampler_init_min_p(p, 1));
        }
        case CROUPIER_ORDER_XTC: {
            // Always: whether it acts is each library's own random number.
            const float threshold = pick(request, "xtc_threshold", 0.0, 0.55);
            params.xtc_probability = 1.0;
            params.xtc_threshold = threshold;
            return add(llama_sampler_init_xtc(1.0F, threshold, 1, 1));
        }
        default: {
            // Not so low that probabilities underflow in fp32, where llama.cpp's entropy becomes NaN.
            const float temperature = pick(request, "temperature", 0.5, 2.0);
            const float range =
                request.chance(0.5) ? 0.0F : pick(request, "dynatemp_range", 0.01, temperature - 0.4);
            const float exponent = pick(request, "dynatemp_exponent", 0.3, 2.0);
            params.temperature = temperature;
            params.dynatemp_range = range;
            params.dynatemp_exponent = exponent;
            return add(llama_sampler_init_temp_ext(temperature, range, exponent));
        }
    }
}

void fill(Request& request) {
    request.vocab = request.chance(0.3) ? 1 + request.below(8) : 1 + request.below(1000);
    request.row.resize(static_cast<std::size_t>(request.vocab));
    const double deviation = request.uniform(0.2, 4.0);
    for (float& logit : request.row) {
        logit = static_cast<float>(std::normal_distribution<double>(0.0, deviation)(request.random));
    }
    request.history.resize(static_cast<std::size_t>(request.below(100)));
    for (llama_token& token : request.history) token = request.below(std::min(request.vocab, 30));
    request.options.vocab = static_cast<std::uint32_t>(request.vocab);
    request.options.seed = 1;
    request.options.wants_probabilities = true;
    say(request, "vocab", request.vocab);
}

void ban_some(Request& request) {
    if (request.chance(0.5)) return;
    const std::int32_t kept = request.below(request.vocab);
    for (std::int32_t id = 0; id < request.vocab; ++id) {
        if (id != kept && request.chance(0.5)) request.row[static_cast<std::size_t>(id)] = -INFINITY;
    }
}

std::ptrdiff_t end_of(const std::vector<std::uint8_t>& steps) {
    return static_cast<std::ptrdiff_t>(steps.size());
}

// The index of a step, or of the end.
std::ptrdiff_t place(const std::vector<std::uint8_t>& steps, std::uint8_t step) {
    return std::find(steps.begin(), steps.end(), step) - steps.begin();
}

bool takes_entropy(const std::vector<std::uint8_t>& steps) {
    const auto is_there = [&](std::uint8_t step) { return place(steps, step) != end_of(steps); };
    return is_there(CROUPIER_ORDER_TEMPERATURE) || is_there(CROUPIER_ORDER_TYPICAL_P);
}

std::vector<std::uint8_t> random_steps(Request& request) {
    std::vector<std::uint8_t> steps = {CROUPIER_ORDER_PENALTIES, CROUPIER_ORDER_TOP_N_SIGMA,
                                       CROUPIER_ORDER_TOP_K,     CROUPIER_ORDER_TYPICAL_P,
                                       CROUPIER_ORDER_TOP_P,     CROUPIER_ORDER_MIN_P,
                                       CROUPIER_ORDER_XTC,       CROUPIER_ORDER_TEMPERATURE};
    std::shuffle(steps.begin(), steps.end(), request.random);
    steps.resize(static_cast<std::size_t>(1 + request.below(request.chance(0.5) ? 2 : 8)));
    const auto sort_two = [&](std::uint8_t first, std::uint8_t second) {
        const auto one = place(steps, first);
        const auto other = place(steps, second);
        if (one != end_of(steps) && other < one) std::iter_swap(steps.begin() + one, steps.begin() + other);
    };
    sort_two(CROUPIER_ORDER_PENALTIES, CROUPIER_ORDER_TEMPERATURE);
    // What takes an entropy comes before what leaves logits of -inf among llama.cpp's candidates.
    for (const std::uint8_t step : {CROUPIER_ORDER_TYPICAL_P, CROUPIER_ORDER_TEMPERATURE}) {
        sort_two(step, CROUPIER_ORDER_TOP_N_SIGMA);
    }
    sort_two(CROUPIER_ORDER_PENALTIES, CROUPIER_ORDER_TEMPERATURE);
    return steps;
}

Left left_after(llama_sampler* sampler, const Request& request) {
    for (const llama_token token : request.history) llama_sampler_accept(sampler, token);
    std::vector<llama_token_data> all;
    for (llama_token id = 0; id < request.vocab; ++id)
        all.push_back({id, request.row[static_cast<std::size_t>(id)], 0});
    llama_token_data_array candidates = {all.data(), all.size(), -1, false};
    llama_sampler_apply(sampler, &candidates);
    Left left;
    for (std::size_t i = 0; i < candidates.size; ++i) {
        if (candidates.data[i].p > 0.0F) left[candidates.data[i].id] = candidates.data[i].p;
    }
    return left;
}

// The greatest difference of a probability.
double distance(const Left& one, const Left& other) {
    double most = 0.0;
    const auto beside = [&most](const Left& from, const Left& to) {
        for (const auto& [token, p] : from) {
            const auto found = to.find(token);
            most = std::max(most, std::abs(p - (found == to.end() ? 0.0 : found->second)));
        }
    };
    beside(one, other);
    beside(other, one);
    return most;
}

std::ptrdiff_t only_in_one(const Left& one, const Left& other) {
    const auto missing = [](const Left& from, const Left& in) {
        return std::count_if(from.begin(), from.end(),
                             [&in](const auto& each) { return in.count(each.first) == 0; });
    };
    return missing(one, other) + missing(other, one);
}

struct Counts {
    int equal = 0;
    int at_threshold = 0;  // one candidate more or less, or another one
    int different = 0;
};

void compare(std::uint32_t number, Counts& counts) {
    Request request;
    request.random.seed(number);
    fill(request);
    const Chain chain(llama_sampler_chain_init(llama_sampler_chain_default_params()), llama_sampler_free);
    const std::vector<std::uint8_t> steps = random_steps(request);
    if (!takes_entropy(steps)) ban_some(request);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        request.options.params.order[i] = steps[i];
        add_step(request, steps[i], chain.get());
    }
    llama_sampler_chain_add(chain.get(), llama_sampler_init_dist(1));
    const Chain ours(croupier_llama::create(request.options), llama_sampler_free);
    const Left theirs_left = left_after(chain.get(), request);
    const Left ours_left = left_after(ours.get(), request);
    const double most = distance(theirs_left, ours_left);
    if (most <= kRounding) {
        ++counts.equal;
    } else if (only_in_one(theirs_left, ours_left) <= 2) {
        ++counts.at_threshold;
    } else {
        ++counts.different;
        std::printf("%u: %zu candidates, llama.cpp %zu, difference %g:%s\n", number, ours_left.size(),
                    theirs_left.size(), most, request.said.c_str());
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const int requests = argc > 1 ? std::atoi(argv[1]) : 10000;
    const int first = argc > 2 ? std::atoi(argv[2]) : 0;
    Counts counts;
    for (int number = first; number < first + requests; ++number)
        compare(static_cast<std::uint32_t>(number), counts);
    std::printf("%d requests: %d equal, %d one candidate more, less or other, %d different\n", requests,
                counts.equal, counts.at_threshold, counts.different);
    return counts.different == 0 ? 0 : 1;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
}
