// llama.cpp's tests/test-sampling.cpp with docs/examples/llama_sampler.h in place of its samplers. Compile
// that file with this one before it (-include) and with libcroupier_decide; it then says which samplers
// stayed llama.cpp's, and why.
//
// The tests compare candidates place by place, so each result is laid out as llama.cpp's sampler lays it out:
// sorted or by id, with what was dropped at probability 0 or not at all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llama_sampler.h"

namespace their_tests {

using croupier_llama::Options;
using croupier_llama::Sampler;

// At least: one of their samplers gets rows of 1, 2 and then 256.
constexpr llama_token kLeastVocab = 256;

enum class Layout {
    sorted,        // the likeliest first
    by_place,      // as they stood
    dropped_as_0,  // as they stood, the dropped ones too
    raw            // sorted, with the probabilities that they had
};

struct Replacement {
    Sampler sampler;
    Layout layout;
};

inline Options options_of(std::uint32_t seed = 0) {
    Options options;
    options.seed = seed;
    return options;
}

inline void apply(Replacement& replacement, llama_token_data_array& candidates) {
    const std::vector<llama_token_data> before(candidates.data, candidates.data + candidates.size);
    std::uint32_t& vocab = replacement.sampler.options.vocab;
    if (vocab == 0) {
        llama_token last = kLeastVocab - 1;
        for (const llama_token_data& each : before) last = std::max(last, each.id);
        vocab = static_cast<std::uint32_t>(last) + 1;
    }
    std::vector<float> had(vocab);
    for (const llama_token_data& each : before) had[static_cast<std::size_t>(each.id)] = each.p;
    replacement.sampler.apply(candidates);
    const llama_token token = candidates.data[candidates.selected].id;
    std::vector<llama_token_data> left(vocab, llama_token_data{LLAMA_TOKEN_NULL, -INFINITY, 0.0F});
    for (std::size_t i = 0; i < candidates.size; ++i) {
        llama_token_data& each = candidates.data[i];
        if (replacement.layout == Layout::raw) each.p = had[static_cast<std::size_t>(each.id)];
        left[static_cast<std::size_t>(each.id)] = each;
    }
    if (replacement.layout == Layout::by_place || replacement.layout == Layout::dropped_as_0) {
        candidates.size = 0;
        candidates.sorted = false;
        for (const llama_token_data& each : before) {
            llama_token_data now = left[static_cast<std::size_t>(each.id)];
            if (now.id == LLAMA_TOKEN_NULL && replacement.layout == Layout::by_place) continue;
            now.id = each.id;
            candidates.data[candidates.size++] = now;
        }
    }
    candidates.selected = 0;
    while (candidates.data[candidates.selected].id != token) ++candidates.selected;
}

inline llama_sampler* create(Options options, Layout layout) {
    static llama_sampler_i functions = [] {
        llama_sampler_i made{};
        made.accept = [](llama_sampler* self, llama_token token) {
            static_cast<Replacement*>(self->ctx)->sampler.accept(token);
        };
        made.apply = [](llama_sampler* self, llama_token_data_array* candidates) {
            apply(*static_cast<Replacement*>(self->ctx), *candidates);
        };
        made.reset = [](llama_sampler* self) { static_cast<Replacement*>(self->ctx)->sampler.reset(); };
        made.free = [](llama_sampler* self) { delete static_cast<Replacement*>(self->ctx); };
        return made;
    }();
    options.wants_probabilities = true;
    return llama_sampler_init(&functions, new Replacement{Sampler(std::move(options)), layout});
}

// Says once for each reason that llama.cpp's sampler stays.
inline llama_sampler* theirs(llama_sampler* sampler, const std::string& why) {
    static std::map<std::string, int> said;
    if (said[why]++ == 0) std::fprintf(stderr, "llama.cpp's own: %s\n", why.c_str());
    return sampler;
}

inline llama_sampler* dist(std::uint32_t seed) {
    return create(options_of(seed), Layout::dropped_as_0);
}

inline llama_sampler* temp_ext(float temperature, float range, float exponent) {
    Options options = options_of();
    options.params.temperature = std::max(temperature, 0.0F);
    options.params.dynatemp_range = range;
    options.params.dynatemp_exponent = exponent;
    return create(options, Layout::dropped_as_0);
}

inline llama_sampler* temp(float temperature) {
    return temp_ext(temperature, 0.0F, 1.0F);
}

inline llama_sampler* top_k(std::int32_t k) {
    if (k <= 0 || k >= 10000)
        return theirs(llama_sampler_init_top_k(k), "top-k that is off keeps candidates of -inf");
    Options options = options_of();
    options.params.top_k = k;
    return create(options, Layout::sorted);
}

inline llama_sampler* top_p(float p, std::size_t min_keep) {
    if (p >= 1.0F)
        return theirs(llama_sampler_init_top_p(p, min_keep), "top-p that is off keeps candidates of -inf");
    Options options = options_of();
    options.params.top_p = std::max(p, std::numeric_limits<float>::min());
    return create(options, Layout::sorted);
}

inline llama_sampler* min_p(float p, std::size_t min_keep) {
    if (p <= 1e-9F)
        return theirs(llama_sampler_init_min_p(p, min_keep), "min-p that is off keeps candidates of -inf");
    Options options = options_of();
    options.params.min_p = std::min(p, 1.0F);
    return create(options, Layout::by_place);
}

inline llama_sampler* typical(float p, std::size_t /*min_keep*/) {
    Options options = options_of();
    options.params.typical_p = p;
    return create(options, Layout::raw);
}

inline llama_sampler* xtc(float p, float threshold, std::size_t /*min_keep*/, std::uint32_t seed) {
    Options options = options_of(seed);
    options.params.xtc_probability = p;
    options.params.xtc_threshold = threshold;
    return create(options, Layout::raw);
}

inline llama_sampler* top_n_sigma(float n) {
    Options options = options_of();
    options.params.top_n_sigma = n;
    return create(options, Layout::dropped_as_0);
}

inline llama_sampler* penalties(std::int32_t vocab, std::int32_t last_n, float repeat, float frequency,
                                float presence) {
    if (frequency > 2.0F || presence > 2.0F) {
        return theirs(llama_sampler_init_penalties(vocab, last_n, repeat, frequency, presence),
                      "frequency and presence penalties above 2");
    }
    Options options = options_of();
    options.params.penalty_last_n = last_n;
    options.params.repetition_penalty = repeat;
    options.params.frequency_penalty = frequency;
    options.params.presence_penalty = presence;
    return create(options, Layout::dropped_as_0);
}

inline llama_sampler* dry(float multiplier, float base, std::int32_t allowed_length, std::int32_t last_n,
                          const std::vector<std::vector<llama_token>>& breakers) {
    Options options = options_of();
    options.params.dry_multiplier = multiplier;
    options.params.dry_base = base;
    options.params.dry_allowed_length = allowed_length;
    options.params.dry_penalty_last_n = last_n;
    for (const auto& breaker : breakers) {
        options.dry_breakers.push_back(static_cast<std::int32_t>(breaker.size()));
        options.dry_breakers.insert(options.dry_breakers.end(), breaker.begin(), breaker.end());
    }
    return create(options, Layout::dropped_as_0);
}

}  // namespace their_tests

// Their test declares the last one itself.
inline llama_sampler* their_tests_dry(float multiplier, float base, std::int32_t allowed_length,
                                      std::int32_t last_n,
                                      const std::vector<std::vector<llama_token>>& breakers) {
    return their_tests::dry(multiplier, base, allowed_length, last_n, breakers);
}
#define llama_sampler_init_dist their_tests::dist
#define llama_sampler_init_temp their_tests::temp
#define llama_sampler_init_temp_ext their_tests::temp_ext
#define llama_sampler_init_top_k their_tests::top_k
#define llama_sampler_init_top_p their_tests::top_p
#define llama_sampler_init_min_p their_tests::min_p
#define llama_sampler_init_typical their_tests::typical
#define llama_sampler_init_xtc their_tests::xtc
#define llama_sampler_init_top_n_sigma their_tests::top_n_sigma
#define llama_sampler_init_penalties their_tests::penalties
#define llama_sampler_init_dry_testing their_tests_dry
