// A sampler for llama.cpp that decides with libcroupier_decide. Copy this file into an engine:
//
//     llama_sampler_chain_add(chain, croupier_llama::create(options));
//
// It replaces the samplers from penalties to dist. A grammar may stand before it: a candidate that is missing
// or has the logit -inf is not drawn. All accepted tokens, the prompt's too, count as output, as in
// llama.cpp. A draw depends on the seed and the number of accepted tokens: applied twice, the sampler draws
// the same token.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "croupier/decide.h"
#include "llama.h"

namespace croupier_llama {

struct Options {
    Options() {
        croupier_params_init(&params);
        params.flags = CROUPIER_NO_LOGPROB;
    }

    std::uint32_t vocab = 0;
    std::uint32_t seed = LLAMA_DEFAULT_SEED;  // this one: another at each reset
    croupier_params params{};                 // but its seed
    std::vector<croupier_bias> bias;
    std::vector<std::int32_t> bad_words;     // each list's length, then its ids
    std::vector<std::int32_t> dry_breakers;  // likewise
    // Leave only the candidates that the filters left, with probabilities. It costs a sort of them.
    bool wants_probabilities = false;
};

struct Close {
    void operator()(croupier_decider* decider) const { croupier_decider_close(decider); }
};
using Decider = std::unique_ptr<croupier_decider, Close>;

// Deciders of samplers that are gone, by vocabulary: to open one takes longer than hundreds of decisions.
class SpareDeciders {
  public:
    static SpareDeciders& instance() {
        static SpareDeciders spare;
        return spare;
    }
    Decider take(std::uint32_t vocab) {
        const std::lock_guard lock(mutex_);
        const auto found = by_vocab_.find(vocab);
        if (found == by_vocab_.end()) return {};
        Decider decider = std::move(found->second);
        by_vocab_.erase(found);
        return decider;
    }
    void put(std::uint32_t vocab, Decider decider) {
        const std::lock_guard lock(mutex_);
        by_vocab_.emplace(vocab, std::move(decider));
    }

  private:
    std::mutex mutex_;
    std::multimap<std::uint32_t, Decider> by_vocab_;
};

class Sampler {
  public:
    explicit Sampler(Options asked) : options(std::move(asked)) { reset(); }
    // Continues as the other one would; it opens a decider of its own.
    Sampler(const Sampler& other) : options(other.options), state_(other.state_) {}
    Sampler& operator=(const Sampler&) = delete;
    ~Sampler() {
        if (decider_) SpareDeciders::instance().put(options.vocab, std::move(decider_));
    }

    // Throws where the row has NaN or +inf, or no token is left to draw.
    llama_token decide(const float* logits) {
        if (!decider_) open();
        croupier_row row;
        croupier_row_init(&row);
        row.logits = logits;
        row.dtype = CROUPIER_FP32;
        row.wants_support = options.wants_probabilities ? 1 : 0;
        row.feedback_level = state_.level;
        row.feedback_weight = state_.weight;
        options.params.seed = state_.seed;
        croupier_sequence sequence;
        croupier_sequence_init(&sequence);
        sequence.params = &options.params;
        sequence.output = state_.accepted.data();
        sequence.output_count = state_.accepted.size();
        sequence.bias = options.bias.data();
        sequence.bias_count = options.bias.size();
        sequence.bad_words = options.bad_words.data();
        sequence.bad_words_count = options.bad_words.size();
        sequence.dry_breakers = options.dry_breakers.data();
        sequence.dry_breakers_count = options.dry_breakers.size();
        croupier_answer_init(&answer_);
        croupier_error error;
        if (croupier_decide(decider_.get(), &row, &sequence, &answer_, &error) != 0) fail(error.text);
        if (answer_.error != CROUPIER_DECISION_FINE) fail(croupier_decide_decision_error_text(answer_.error));
        state_.drawn = answer_.token;
        state_.next_level = answer_.feedback_level;
        state_.next_weight = answer_.feedback_weight;
        return answer_.token;
    }

    void apply(llama_token_data_array& candidates) {
        row_.assign(options.vocab, -INFINITY);
        for (std::size_t i = 0; i < candidates.size; ++i) {
            const llama_token id = candidates.data[i].id;
            if (id < 0 || static_cast<std::uint32_t>(id) >= options.vocab) {
                fail("candidate " + std::to_string(id) + " is not in the vocabulary");
            }
            row_[static_cast<std::size_t>(id)] = candidates.data[i].logit;
        }
        const llama_token token = decide(row_.data());
        if (options.wants_probabilities) keep_support(candidates);
        candidates.selected = 0;
        while (candidates.data[candidates.selected].id != token) ++candidates.selected;
    }

    void accept(llama_token token) {
        state_.accepted.push_back(token);
        // A token that was forced in place of the drawn one leaves mirostat and adaptive-p as they were.
        if (token != std::exchange(state_.drawn, LLAMA_TOKEN_NULL)) return;
        state_.level = state_.next_level;
        state_.weight = state_.next_weight;
    }

    void reset() {
        state_ = State{};
        state_.seed = options.seed == LLAMA_DEFAULT_SEED ? std::random_device()() : options.seed;
    }

    Options options;

  private:
    struct State {
        std::vector<std::int32_t> accepted;
        std::uint32_t seed = 0;
        double level = 0.0;
        double weight = 0.0;
        llama_token drawn = LLAMA_TOKEN_NULL;  // last, and not accepted yet
        double next_level = 0.0;
        double next_weight = 0.0;
    };
    [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error("croupier: " + why); }

    void open() {
        decider_ = SpareDeciders::instance().take(options.vocab);
        if (decider_) return;
        croupier_decider_options asked;
        croupier_decider_options_init(&asked);
        asked.vocab = options.vocab;
        asked.max_length = CROUPIER_MAX_LENGTH;
        croupier_decider* opened = nullptr;
        croupier_error error;
        if (croupier_decider_open(&asked, &opened, &error) != 0) fail(error.text);
        decider_.reset(opened);
    }

    void keep_support(llama_token_data_array& candidates) const {
        for (std::size_t i = 0; i < answer_.support_count; ++i) {
            const croupier_survivor& each = answer_.support[i];
            candidates.data[i] = {each.token, static_cast<float>(std::log(each.probability)),
                                  static_cast<float>(each.probability)};
        }
        candidates.size = answer_.support_count;
        candidates.sorted = true;
    }

    State state_;
    Decider decider_;
    croupier_answer answer_{};
    std::vector<float> row_;
};

inline llama_sampler_i* sampler_interface();

inline llama_sampler* create(Options options) {
    return llama_sampler_init(sampler_interface(), new Sampler(std::move(options)));
}

// Null: not one of these.
inline Sampler* sampler_of(const llama_sampler* sampler) {
    if (sampler == nullptr || sampler->iface != sampler_interface()) return nullptr;
    return static_cast<Sampler*>(sampler->ctx);
}

inline llama_sampler_i* sampler_interface() {
    static llama_sampler_i functions = [] {
        llama_sampler_i made{};  // whatever else there is: llama.cpp's default
        made.name = [](const llama_sampler*) { return "croupier"; };
        made.accept = [](llama_sampler* self, llama_token token) { sampler_of(self)->accept(token); };
        made.apply = [](llama_sampler* self, llama_token_data_array* candidates) {
            sampler_of(self)->apply(*candidates);
        };
        made.reset = [](llama_sampler* self) { sampler_of(self)->reset(); };
        made.clone = [](const llama_sampler* self) {
            return llama_sampler_init(sampler_interface(), new Sampler(*sampler_of(self)));
        };
        made.free = [](llama_sampler* self) { delete sampler_of(self); };
        return made;
    }();
    return &functions;
}

}  // namespace croupier_llama
