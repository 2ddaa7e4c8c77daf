// Checks of common/sampling.cpp with server.patch, beside its own chain, over a model of tiny_model.py:
//
//   patch_checks MODEL.gguf      # ends with 1 and says which check failed
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common.h"
#include "decide_ahead.h"
#include "llama.h"
#include "sampling.h"

namespace {

using Tokens = std::vector<llama_token>;

int failures = 0;
void check(bool holds, const char* what) {
    std::printf("%s: %s\n", holds ? "ok" : "FAILED", what);
    if (!holds) ++failures;
}

class Model {
  public:
    explicit Model(const char* path)
        : model_(llama_model_load_from_file(path, llama_model_default_params()), llama_model_free) {
        if (!model_) throw std::runtime_error(std::string("no model in ") + path);
        llama_context_params asked = llama_context_default_params();
        asked.n_ctx = 256;
        asked.n_threads = asked.n_threads_batch = 1;
        context_.reset(llama_init_from_model(model_.get(), asked));
    }

    common_sampler_ptr sampler(common_params_sampling params, bool ours) {
        common_sampler_ptr made(common_sampler_init(model_.get(), params));
        if (ours) common_sampler_use_croupier(made.get(), model_.get());
        return made;
    }

    // Leaves logits behind.
    void feed(llama_token token) {
        llama_batch batch = llama_batch_get_one(&token, 1);
        if (llama_decode(context_.get(), batch) != 0) throw std::runtime_error("llama_decode failed");
    }
    void begin() {
        llama_memory_clear(llama_get_memory(context_.get()), true);
        feed(1000);
    }

    Tokens generate(common_sampler* sampler, int count) {
        begin();
        Tokens tokens;
        for (int i = 0; i < count; ++i) {
            tokens.push_back(common_sampler_sample(sampler, context_.get(), -1));
            common_sampler_accept(sampler, tokens.back(), true);
            feed(tokens.back());
        }
        return tokens;
    }

    std::string text(const Tokens& tokens) {
        std::string said;
        for (const llama_token token : tokens) said += common_token_to_piece(vocab(), token, true);
        return said;
    }
    const llama_vocab* vocab() { return llama_model_get_vocab(model_.get()); }
    llama_context* context() { return context_.get(); }

  private:
    std::unique_ptr<llama_model, void (*)(llama_model*)> model_;
    std::unique_ptr<llama_context, void (*)(llama_context*)> context_{nullptr, llama_free};
};

common_params_sampling seeded(std::uint32_t seed) {
    common_params_sampling params;
    params.seed = seed;
    return params;
}

bool is_ours(const common_sampler_ptr& sampler) {
    return common_sampler_print(sampler.get()).find("croupier") != std::string::npos;
}

void check_grammar(Model& model) {
    common_params_sampling params = seeded(1);
    params.grammar = {COMMON_GRAMMAR_TYPE_USER, "root ::= [0-9]+"};
    const auto only_digits = [](const std::string& text) {
        const std::string until_end = text.substr(0, text.find("</s>"));
        return !until_end.empty() && until_end.find_first_not_of("0123456789") == std::string::npos;
    };
    const auto sampler = model.sampler(params, true);
    check(is_ours(sampler) && only_digits(model.text(model.generate(sampler.get(), 12))),
          "a grammar is obeyed");
    params.temp = 0.0F;
    const Tokens ours = model.generate(model.sampler(params, true).get(), 12);
    check(ours == model.generate(model.sampler(params, false).get(), 12),
          "greedy under a grammar is llama.cpp's");
}

void check_probabilities(Model& model) {
    common_params_sampling params = seeded(2);
    params.n_probs = 5;
    params.top_p = 1.0F;
    params.min_p = 0.0F;
    double sums[2];
    std::set<llama_token> left[2];
    for (const bool ours : {false, true}) {
        const auto sampler = model.sampler(params, ours);
        model.begin();
        const llama_token token = common_sampler_sample(sampler.get(), model.context(), -1);
        const llama_token_data_array* all = common_sampler_get_candidates(sampler.get(), true);
        check(all->data[all->selected].id == token, "with n_probs the selected candidate is the token");
        sums[ours] = 0.0;
        for (std::size_t i = 0; i < all->size; ++i) {
            sums[ours] += all->data[i].p;
            left[ours].insert(all->data[i].id);
        }
    }
    check(left[0] == left[1] && left[0].size() == 40, "with n_probs the candidates are llama.cpp's");
    check(std::abs(sums[0] - 1.0) < 1e-4 && std::abs(sums[1] - 1.0) < 1e-4, "their probabilities sum to 1");
}

void check_state(Model& model) {
    common_params_sampling params = seeded(3);
    params.mirostat = 2;
    const auto sampler = model.sampler(params, true);
    const Tokens whole = model.generate(sampler.get(), 16);
    common_sampler_reset(sampler.get());
    check(whole == model.generate(sampler.get(), 16), "a reset sampler draws again what it drew");
    common_sampler_reset(sampler.get());
    model.generate(sampler.get(), 8);
    const common_sampler_ptr saved(common_sampler_clone(sampler.get()));
    const Tokens gone_on = model.generate(sampler.get(), 8);
    common_sampler_copy(saved.get(), sampler.get());
    check(gone_on == model.generate(sampler.get(), 8), "a restored sampler draws again what it drew");
    const Tokens one = model.generate(model.sampler(seeded(LLAMA_DEFAULT_SEED), true).get(), 16);
    check(one != model.generate(model.sampler(seeded(LLAMA_DEFAULT_SEED), true).get(), 16),
          "no seed: other tokens");
}

void check_bans(Model& model) {
    common_params_sampling params;
    params.temp = 0.0F;
    const Tokens first = model.generate(model.sampler(params, true).get(), 4);
    params.logit_bias = {{first[0], -INFINITY}, {first[1], 50.0F}};
    const Tokens ours = model.generate(model.sampler(params, true).get(), 4);
    check(ours[0] != first[0] && ours == model.generate(model.sampler(params, false).get(), 4),
          "biases and bans are llama.cpp's");
    params = seeded(4);
    params.penalty_repeat = 1.3F;
    params.temp = 0.0F;
    check(model.generate(model.sampler(params, true).get(), 24) ==
              model.generate(model.sampler(params, false).get(), 24),
          "greedy with a repetition penalty is llama.cpp's");
    params.dry_multiplier = 2.0F;
    check(model.generate(model.sampler(params, true).get(), 24) ==
              model.generate(model.sampler(params, false).get(), 24),
          "greedy with DRY and its breakers is llama.cpp's");
}

void check_unserved(Model& model) {
    common_params_sampling params = seeded(5);
    params.min_keep = 3;
    check(!is_ours(model.sampler(params, true)), "min_keep stays with llama.cpp");
    check(model.generate(model.sampler(params, true).get(), 8) ==
              model.generate(model.sampler(params, false).get(), 8),
          "and draws its tokens");
    params = seeded(5);
    params.samplers = {COMMON_SAMPLER_TYPE_TEMPERATURE, COMMON_SAMPLER_TYPE_PENALTIES};
    check(!is_ours(model.sampler(params, true)), "penalties after the temperature stay with llama.cpp");
    params.samplers = {COMMON_SAMPLER_TYPE_TOP_K, COMMON_SAMPLER_TYPE_TOP_K};
    check(!is_ours(model.sampler(params, true)), "a sampler listed twice stays with llama.cpp");
    params.samplers = {};
    check(is_ours(model.sampler(params, true)), "no samplers at all are served");
    params.penalty_freq = 3.0F;
    params.samplers = {COMMON_SAMPLER_TYPE_PENALTIES};
    check(!is_ours(model.sampler(params, true)), "a penalty of 3 stays with llama.cpp");
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) throw std::invalid_argument("usage: patch_checks MODEL.gguf");
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    Model model(argv[1]);
    check_grammar(model);
    check_probabilities(model);
    check_state(model);
    check_bans(model);
    check_unserved(model);
    return failures == 0 ? 0 : 1;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
