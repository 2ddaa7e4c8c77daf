// The loop of llama.cpp's server without HTTP: a batch of one token for each slot, then each slot's token.
//
//   slots MODEL.gguf KIND SLOTS STEPS     # prints one line of JSON
//
// Built twice, with common/sampling.cpp as it is and, with -DCROUPIER, with server.patch applied.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common.h"
#include "llama.h"
#include "sampling.h"
#ifdef CROUPIER
#include "decide_ahead.h"
#endif

namespace {

constexpr int kWarmUp = 4;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

common_params_sampling greedy() {
    common_params_sampling params;
    params.temp = 0.0F;
    return params;
}

common_params_sampling all_samplers(std::int32_t top_k) {
    common_params_sampling params;
    params.penalty_repeat = 1.1F;
    params.penalty_freq = 0.1F;
    params.penalty_present = 0.1F;
    params.dry_multiplier = 0.8F;
    params.top_n_sigma = 3.0F;
    params.top_k = top_k;
    params.typ_p = 0.97F;
    params.xtc_probability = 0.5F;
    return params;
}

common_params_sampling mirostat() {
    common_params_sampling params;
    params.mirostat = 2;
    return params;
}

// "mixed" is all of these, in turn.
const std::map<std::string, common_params_sampling>& kinds() {
    static const std::map<std::string, common_params_sampling> all = {{"greedy", greedy()},
                                                                      {"default", common_params_sampling()},
                                                                      {"all", all_samplers(40)},
                                                                      {"all-no-top-k", all_samplers(0)},
                                                                      {"mirostat", mirostat()}};
    return all;
}

common_params_sampling params_of(const std::string& kind, int slot) {
    auto found = kinds().find(kind);
    if (kind == "mixed") found = std::next(kinds().begin(), slot % static_cast<int>(kinds().size()));
    if (found == kinds().end()) throw std::invalid_argument("no kind " + kind);
    common_params_sampling params = found->second;
    params.seed = static_cast<std::uint32_t>(slot + 1);
    return params;
}

struct Slot {
    common_sampler_ptr sampler;
    llama_token token;
};

class Loop {
  public:
    Loop(const char* path, const std::string& kind, int slots, int steps)
        : model_(llama_model_load_from_file(path, llama_model_default_params()), llama_model_free),
          batch_(llama_batch_init(slots, 0, 1)) {
        if (!model_) throw std::runtime_error(std::string("no model in ") + path);
        llama_context_params asked = llama_context_default_params();
        asked.n_ctx = static_cast<std::uint32_t>(slots * (steps + kWarmUp + 1));
        asked.n_batch = asked.n_ubatch = static_cast<std::uint32_t>(slots);
        asked.n_seq_max = static_cast<std::uint32_t>(slots);
        asked.n_threads = asked.n_threads_batch = 1;
        context_.reset(llama_init_from_model(model_.get(), asked));
        if (!context_) throw std::runtime_error("no context");
        for (int slot = 0; slot < slots; ++slot) {
            common_params_sampling params = params_of(kind, slot);
            slots_.push_back({common_sampler_ptr(common_sampler_init(model_.get(), params)), 1000 + slot});
#ifdef CROUPIER
            common_sampler_use_croupier(slots_.back().sampler.get(), model_.get());
#endif
            common_sampler_accept(slots_.back().sampler.get(), slots_.back().token, false);
        }
    }
    ~Loop() {
        llama_batch_free(batch_);
    }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void step() {
        batch_.n_tokens = static_cast<std::int32_t>(slots_.size());
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            batch_.token[i] = slots_[i].token;
            batch_.pos[i] = position_;
            batch_.n_seq_id[i] = 1;
            batch_.seq_id[i][0] = static_cast<llama_seq_id>(i);
            batch_.logits[i] = 1;
        }
        ++position_;
        const auto begin = Clock::now();
        if (llama_decode(context_.get(), batch_) != 0) throw std::runtime_error("llama_decode failed");
        llama_synchronize(context_.get());
        const auto decoded = Clock::now();
        sample();
        sampling += seconds_since(decoded);
        total += seconds_since(begin);
    }

    double sampling = 0.0;
    double total = 0.0;
    std::uint64_t hash = 0;  // of all tokens

  private:
    void sample() {
#ifdef CROUPIER
        croupier_llama::rows_ahead().clear();
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            common_sampler_add_row(slots_[i].sampler.get(), context_.get(), static_cast<int>(i));
        }
        croupier_llama::decide_ahead();
#endif
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            Slot& slot = slots_[i];
            slot.token = common_sampler_sample(slot.sampler.get(), context_.get(), static_cast<int>(i));
            common_sampler_accept(slot.sampler.get(), slot.token, true);
            hash = hash * 1099511628211U + static_cast<std::uint64_t>(slot.token);
        }
    }

    std::unique_ptr<llama_model, void (*)(llama_model*)> model_;
    std::unique_ptr<llama_context, void (*)(llama_context*)> context_{nullptr, llama_free};
    std::vector<Slot> slots_;
    llama_batch batch_;
    llama_pos position_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 5) throw std::invalid_argument("usage: slots MODEL.gguf KIND SLOTS STEPS");
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    const int slots = std::atoi(argv[3]);
    const int steps = std::atoi(argv[4]);
    Loop loop(argv[1], argv[2], slots, steps);
    for (int step = 0; step < kWarmUp; ++step) loop.step();
    loop.sampling = loop.total = 0.0;
    for (int step = 0; step < steps; ++step) loop.step();
    std::printf(
        "{\"kind\": \"%s\", \"slots\": %d, \"steps\": %d, \"tokens_per_second\": %.1f, \"sampling_ms\": "
        "%.3f, "
        "\"step_ms\": %.3f, \"hash\": \"%016llx\"}\n",
        argv[2], slots, steps, slots * steps / loop.total, loop.sampling / steps * 1e3,
        loop.total / steps * 1e3, static_cast<unsigned long long>(loop.hash));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
