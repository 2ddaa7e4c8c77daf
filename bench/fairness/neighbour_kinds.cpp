#include "bench/fairness/neighbour_kinds.h"

#include <algorithm>

#include "bench/all_controls.h"
#include "config/config.h"
#include "proto/sampling.h"

namespace croupier::bench {
namespace {

void ask_ordinary(client::Sequence& sequence, std::uint32_t /*vocab*/) {
    ask_all_controls(sequence);
}

void ask_support(client::Sequence& sequence, std::uint32_t vocab) {
    sequence.params.temperature = 1.8;
    sequence.params.support = std::min(vocab, config::Sessions().max_support);
}

void ask_adaptive(client::Sequence& sequence, std::uint32_t vocab) {
    ask_support(sequence, vocab);
    sequence.params.adaptive_target = 0.2;
    sequence.params.repetition_penalty = 1.3;
    sequence.params.frequency_penalty = 0.5;
    sequence.params.presence_penalty = 0.5;
    for (std::int32_t token = 0; token < 300; ++token) sequence.bias.push_back({token * 97, 1.5F});
}

void ask_processed(client::Sequence& sequence, std::uint32_t /*vocab*/) {
    sequence.params.temperature = 1.8;
    sequence.params.adaptive_target = 0.0;
    sequence.params.adaptive_decay = 0.99;
    sequence.params.logprob_mode = CROUPIER_LOGPROB_PROCESSED;
    sequence.params.logprobs = proto::kMaxSessionLogprobs;
}

void ask_typical(client::Sequence& sequence, std::uint32_t vocab) {
    ask_support(sequence, vocab);
    sequence.params.typical_p = 0.999;
    sequence.params.dynatemp_range = 0.5;
}

// As llama.cpp's users combine them.
void ask_dynatemp(client::Sequence& sequence, std::uint32_t /*vocab*/) {
    sequence.params.min_p = 0.02;
    sequence.params.dynatemp_range = 0.5;
}

void ask_allowed(client::Sequence& sequence, std::uint32_t vocab) {
    sequence.params.rng = CROUPIER_RNG_VLLM;
    const auto count = static_cast<std::int32_t>(std::min(vocab, 50'000U));
    for (std::int32_t id = 0; id < count; ++id) sequence.allowed_ids.push_back(id);
}

void ask_bad_words(client::Sequence& sequence, std::uint32_t vocab) {
    ask_ordinary(sequence, vocab);
    const auto count = static_cast<std::int32_t>(std::min(vocab, config::Sessions().max_list_tokens / 2));
    for (std::int32_t id = 0; id < count; ++id) {
        sequence.bad_words.push_back(1);
        sequence.bad_words.push_back(id);
    }
}

void ask_history(client::Sequence& sequence, std::uint32_t vocab) {
    ask_ordinary(sequence, vocab);
    sequence.params.dry_multiplier = 0.8;
}

}  // namespace

const std::vector<NeighbourKind>& neighbour_kinds() {
    using proto::Dtype;
    static const std::vector<NeighbourKind> kinds = {
        {"ordinary", "top-k 50, top-p, min-p, penalties", Dtype::bf16, 3, false, ask_ordinary},
        {"adaptive", "adaptive-p, penalties, 300 biases, the most support", Dtype::bf16, 3, false,
         ask_adaptive},
        {"processed", "adaptive-p with 64 processed log-probs", Dtype::bf16, 3, false, ask_processed},
        {"typical", "fp32, dynamic temperature, typical-p, the most support", Dtype::fp32, 3, false,
         ask_typical},
        {"dynatemp", "fp32, dynamic temperature, min-p", Dtype::fp32, 3, false, ask_dynatemp},
        {"support", "fp32, the most support", Dtype::fp32, 3, false, ask_support},
        {"allowed", "fp32, 50,000 allowed ids, vLLM's draw", Dtype::fp32, 3, false, ask_allowed},
        {"bad-words", "ordinary, 32,768 bad words", Dtype::bf16, 3, false, ask_bad_words},
        {"history", "ordinary with DRY, new prompts of 100,000 tokens in each step", Dtype::bf16, 100'000,
         true, ask_history},
    };
    return kinds;
}

}  // namespace croupier::bench
