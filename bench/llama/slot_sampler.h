// The sampler of one request to llama.cpp's server: what its parameters mean for decide.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common.h"
#include "llama_sampler.h"
#include "log.h"

namespace croupier_llama {

// Why llama.cpp's own samplers are to serve a request.
struct Unserved : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void refuse_if(bool condition, const char* why) {
    if (condition) throw Unserved(why);
}

// The tokens whose text has this byte: where DRY's repeats end.
inline const std::vector<std::int32_t>& tokens_with(const llama_vocab* vocab, char byte) {
    static std::mutex mutex;
    static std::map<std::pair<const llama_vocab*, char>, std::vector<std::int32_t>> known;
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.try_emplace({vocab, byte});
    for (llama_token id = 0; is_new && id < llama_vocab_n_tokens(vocab); ++id) {
        if (common_token_to_piece(vocab, id, true).find(byte) != std::string::npos)
            entry->second.push_back(id);
    }
    return entry->second;
}

inline void take_dry(const common_params_sampling& asked, const llama_vocab* vocab, Options& options) {
    if (asked.dry_multiplier == 0.0F || asked.dry_base < 1.0F || asked.dry_penalty_last_n <= 0) return;
    options.params.dry_multiplier = asked.dry_multiplier;
    options.params.dry_base = asked.dry_base;
    options.params.dry_allowed_length = asked.dry_allowed_length;
    options.params.dry_penalty_last_n = asked.dry_penalty_last_n;
    for (const std::string& breaker : asked.dry_sequence_breakers) {
        refuse_if(breaker.size() != 1, "a DRY sequence breaker is not one byte long");
        for (const std::int32_t id : tokens_with(vocab, breaker[0])) {
            options.dry_breakers.insert(options.dry_breakers.end(), {1, id});
        }
    }
    refuse_if(options.dry_breakers.size() > CROUPIER_MAX_LIST_TOKENS, "too many tokens are DRY breakers");
}

inline void take_temperature(const common_params_sampling& asked, croupier_params& params) {
    const bool greedy = asked.temp <= 0.0F;
    refuse_if(greedy && asked.dynatemp_range > 0.0F, "the dynamic temperature's middle is 0");
    refuse_if(!greedy && asked.temp < 0.01F, "the temperature is between 0 and 0.01");
    params.temperature = std::max(asked.temp, 0.0F);
    params.dynatemp_range = asked.dynatemp_range;
    params.dynatemp_exponent = asked.dynatemp_exponent;
}

inline std::uint8_t take_step(common_sampler_type step, const common_params_sampling& asked,
                              const llama_vocab* vocab, Options& options) {
    croupier_params& params = options.params;
    switch (step) {
        case COMMON_SAMPLER_TYPE_PENALTIES:
            params.penalty_last_n = std::max(asked.penalty_last_n, 0);
            params.repetition_penalty = asked.penalty_repeat;
            params.frequency_penalty = asked.penalty_freq;
            params.presence_penalty = asked.penalty_present;
            return CROUPIER_ORDER_PENALTIES;
        case COMMON_SAMPLER_TYPE_DRY:
            take_dry(asked, vocab, options);
            return CROUPIER_ORDER_DRY;
        case COMMON_SAMPLER_TYPE_TOP_N_SIGMA:
            params.top_n_sigma = std::max(asked.top_n_sigma, 0.0F);
            return CROUPIER_ORDER_TOP_N_SIGMA;
        case COMMON_SAMPLER_TYPE_TOP_K:
            params.top_k = std::max(asked.top_k, 0);
            return CROUPIER_ORDER_TOP_K;
        case COMMON_SAMPLER_TYPE_TYPICAL_P:
            params.typical_p = std::min(asked.typ_p, 1.0F);
            return CROUPIER_ORDER_TYPICAL_P;
        case COMMON_SAMPLER_TYPE_TOP_P:
            // llama.cpp keeps one token at 0.
            params.top_p = std::clamp(asked.top_p, std::numeric_limits<float>::min(), 1.0F);
            return CROUPIER_ORDER_TOP_P;
        case COMMON_SAMPLER_TYPE_MIN_P:
            params.min_p = std::clamp(asked.min_p, 0.0F, 1.0F);
            return CROUPIER_ORDER_MIN_P;
        case COMMON_SAMPLER_TYPE_XTC:
            params.xtc_probability = std::max(asked.xtc_probability, 0.0F);
            params.xtc_threshold = asked.xtc_threshold;
            return CROUPIER_ORDER_XTC;
        case COMMON_SAMPLER_TYPE_TEMPERATURE:
            take_temperature(asked, params);
            return CROUPIER_ORDER_TEMPERATURE;
        case COMMON_SAMPLER_TYPE_ADAPTIVE_P:
            params.adaptive_target = std::min(asked.adaptive_target, 1.0F);
            params.adaptive_decay = asked.adaptive_decay;
            return CROUPIER_ORDER_END;  // it draws, wherever it is listed
        default:
            throw Unserved("infill is among the samplers");
    }
}

inline void take_steps(const common_params_sampling& asked, const llama_vocab* vocab, Options& options) {
    croupier_params& params = options.params;
    std::size_t count = 0;
    if (asked.mirostat != 0) {
        params.mirostat = static_cast<std::uint8_t>(asked.mirostat);
        params.mirostat_tau = asked.mirostat_tau;
        params.mirostat_eta = asked.mirostat_eta;
        take_temperature(asked, params);
        params.dynatemp_range = 0.0;
        params.order[0] = CROUPIER_ORDER_TEMPERATURE;
    } else {
        for (const common_sampler_type step : asked.samplers) {
            refuse_if(count == CROUPIER_MAX_ORDER, "too many samplers are listed");
            const std::uint8_t taken = take_step(step, asked, vocab, options);
            const bool adds = taken == CROUPIER_ORDER_PENALTIES || taken == CROUPIER_ORDER_DRY;
            refuse_if(adds && (params.temperature != 1.0 || params.dynatemp_range > 0.0),
                      "penalties stand after the temperature");
            if (taken != CROUPIER_ORDER_END) params.order[count++] = taken;
        }
    }
    const bool drops_the_best = params.xtc_probability > 0.0 || params.typical_p < 1.0 ||
                                params.mirostat != 0 || params.adaptive_target >= 0.0;
    refuse_if(params.temperature == 0.0 && drops_the_best,
              "temperature 0 stands beside XTC, typical-p or mirostat");
    refuse_if(params.dynatemp_range > 0.0 && params.top_n_sigma > 0.0,
              "top-n-sigma stands beside a dynamic temperature, whose entropy counts what it dropped");
}

inline void take_bias(const common_params_sampling& asked, const llama_vocab* vocab, Options& options) {
    for (const llama_logit_bias& each : asked.logit_bias) {
        if (each.bias == -INFINITY) {
            options.bad_words.insert(options.bad_words.end(), {1, each.token});
        } else {
            refuse_if(!(std::abs(each.bias) <= 100.0F), "a bias is beyond 100");
            options.bias.push_back({each.token, each.bias});
        }
    }
    std::int32_t count = 0;
    const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
    for (std::int32_t i = 0; i < count; ++i)
        options.bad_words.insert(options.bad_words.end(), {1, suppressed[i]});
}

// Throws what croupier_decide() would say of these parameters with every row.
inline void check_parameters(const Options& asked) {
    Options of_one;
    of_one.vocab = 1;
    of_one.params = asked.params;
    const float row = 0.0F;
    Sampler(of_one).decide(&row);
}

inline Options options_of(const common_params_sampling& asked, const llama_vocab* vocab) {
    refuse_if(asked.min_keep > 1, "min_keep is above 1");
    refuse_if(asked.backend_sampling, "the backend samples");
    Options options;
    options.vocab = static_cast<std::uint32_t>(llama_vocab_n_tokens(vocab));
    options.seed = asked.seed;
    options.wants_probabilities = asked.n_probs > 0;
    take_steps(asked, vocab, options);
    take_bias(asked, vocab, options);
    check_parameters(options);
    return options;
}

// Null: llama.cpp's samplers are to serve the request, and the log says why.
inline llama_sampler* create_for(const common_params_sampling& asked, const llama_vocab* vocab) {
    try {
        return create(options_of(asked, vocab));
    } catch (const std::runtime_error& unserved) {
        LOG_WRN("llama.cpp's samplers serve the request: %s\n", unserved.what());
        return nullptr;
    }
}

}  // namespace croupier_llama
