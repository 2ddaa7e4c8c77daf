#include "bench/decide/bench_cases.h"

namespace croupier::bench {
namespace {

using proto::SamplingParams;
using proto::Step;

SamplingParams plain(double temperature) {
    SamplingParams params;
    params.temperature = temperature;
    params.flags = proto::kNoLogprob;
    return params;
}

SamplingParams with_top_k() {
    SamplingParams params = plain(0.8);
    params.top_k = 50;
    return params;
}

SamplingParams with_top_p() {
    SamplingParams params = plain(0.8);
    params.top_p = 0.95;
    return params;
}

SamplingParams with_min_p() {
    SamplingParams params = plain(0.8);
    params.min_p = 0.05;
    return params;
}

SamplingParams llama_default() {
    SamplingParams params = plain(0.8);
    params.top_k = 40;
    params.top_p = 0.95;
    params.min_p = 0.05;
    params.order = {Step::penalties, Step::dry,   Step::top_n_sigma, Step::top_k,      Step::typical_p,
                    Step::top_p,     Step::min_p, Step::xtc,         Step::temperature};
    return params;
}

SamplingParams full() {
    SamplingParams params = plain(0.8);
    params.repetition_penalty = 1.1;
    params.frequency_penalty = 0.1;
    params.presence_penalty = 0.1;
    params.top_k = 50;
    params.top_p = 0.95;
    params.min_p = 0.02;
    return params;
}

SamplingParams full_with_dry() {
    SamplingParams params = full();
    params.dry_multiplier = 0.8;
    return params;
}

SamplingParams with_logprobs() {
    SamplingParams params = plain(0.0);
    params.flags = 0;
    params.logprobs = 20;
    return params;
}

}  // namespace

std::vector<BenchCase> bench_cases() {
    return {
        {"greedy", "the first maximum", plain(0.0)},
        {"temperature", "T 0.8, no filter", plain(0.8)},
        {"topk", "T 0.8, top-k 50", with_top_k()},
        {"topp", "T 0.8, top-p 0.95", with_top_p()},
        {"minp", "T 0.8, min-p 0.05", with_min_p()},
        {"default", "llama.cpp's default chain", llama_default()},
        {"full", "penalties 1.1/0.1/0.1, top-k 50, top-p 0.95, min-p 0.02, T 0.8", full()},
        {"full+dry", "the same with DRY 0.8", full_with_dry()},
        {"logprobs20", "greedy, log-probs of the drawn token and the 20 best", with_logprobs()},
    };
}

}  // namespace croupier::bench
