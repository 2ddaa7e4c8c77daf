#include "lm_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace croupier::sampler::test {
namespace {

using Generator = std::mt19937_64;
using proto::Rng;
using proto::SamplingParams;
using proto::Step;

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kGrain = 0x1p-6F;  // bf16's and fp16's logits are multiples of it: either format has them

std::uint32_t below(std::uint32_t bound, Generator& generator) {
    return static_cast<std::uint32_t>(generator() % bound);
}

bool one_in(std::uint32_t odds, Generator& generator) {
    return below(odds, generator) == 0;
}

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& choices, Generator& generator) {
    return choices[below(static_cast<std::uint32_t>(N), generator)];
}

// Close to normal, with deviation 1: the sum of eight uniforms.
float bell(Generator& generator) {
    std::uint64_t bits = generator();
    std::int32_t sum = 0;
    for (int i = 0; i < 8; ++i, bits >>= 8U) sum += static_cast<std::int32_t>(bits & 0xFFU);
    constexpr float kDeviation = 209.0F;  // of eight numbers from 0 to 255
    return static_cast<float>(sum - 1020) / kDeviation;
}

// Close to an exponential one, with mean 1: -ln u by straight lines between the powers of two.
float tail(Generator& generator) {
    const std::uint64_t bits = generator() | 1U;
    const int zeros = std::countl_zero(bits);
    const auto mantissa = static_cast<float>((bits << static_cast<unsigned>(zeros)) >> 48U);
    return 0.69F * (static_cast<float>(zeros + 1) - (mantissa - 0x1p15F) * 0x1p-15F);
}

float of_dtype(float value, proto::Dtype dtype) {
    if (dtype == proto::Dtype::fp32) return value;
    const float whole = static_cast<float>(static_cast<std::int32_t>(value / kGrain)) * kGrain;
    return dtype == proto::Dtype::fp16 ? std::clamp(whole, -31.0F, 31.0F)
                                       : quantised(std::clamp(whole, -60000.0F, 60000.0F), dtype);
}

// The best `wanted` tokens, best first.
std::vector<std::int32_t> best_of(const std::vector<float>& logits, std::size_t wanted) {
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    wanted = std::min(wanted, ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(wanted), ids.end(),
                      [&logits](std::int32_t a, std::int32_t b) {
                          const float of_a = logits[static_cast<std::size_t>(a)];
                          const float of_b = logits[static_cast<std::size_t>(b)];
                          return of_a > of_b || (of_a == of_b && a < b);
                      });
    ids.resize(wanted);
    return ids;
}

void add_head(std::vector<float>& logits, std::uint32_t tokens, float level, float reach,
              Generator& generator) {
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    for (; tokens > 0; --tokens) {
        const std::uint32_t token = below(vocab, generator);
        logits[token] = level + reach * std::min(tail(generator), 7.0F);
    }
}

// Equal logits above all others, or alone in the row: whole shares, which fall on a filter's own boundary.
void tie_head(std::vector<float>& logits, Generator& generator) {
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    if (one_in(2, generator)) std::fill(logits.begin(), logits.end(), kNothing);
    for (std::uint32_t tokens = one_of(std::array{2U, 4U, 8U, 100U}, generator); tokens > 0; --tokens) {
        logits[below(vocab, generator)] = 20.0F;
    }
}

// Half of them from the row's best: what is drawn is what was drawn before.
std::int32_t likely_token(const LmCase& out, Generator& generator) {
    const auto vocab = static_cast<std::uint32_t>(out.logits.size());
    if (one_in(2, generator)) return static_cast<std::int32_t>(below(vocab, generator));
    return out.best[below(static_cast<std::uint32_t>(out.best.size()), generator)];
}

std::vector<std::int32_t> likely_tokens(const LmCase& out, std::uint32_t count, Generator& generator) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) token = likely_token(out, generator);
    return tokens;
}

void choose_top_p(SamplingParams& params, Generator& generator) {
    params.top_p = one_of(std::array{0.5, 0.8, 0.9, 0.95, 0.95, 0.99}, generator);
}
void choose_typical(SamplingParams& params, Generator& generator) {
    params.typical_p = one_of(std::array{0.2, 0.5, 0.9, 0.95}, generator);
}
void choose_xtc(SamplingParams& params, Generator& generator) {
    params.xtc_probability = one_of(std::array{0.5, 1.0, 1.0}, generator);
    params.xtc_threshold = one_of(std::array{0.1, 0.05, 0.02, 0.25}, generator);
}

void choose_filters(SamplingParams& params, Generator& generator) {
    const std::uint32_t kind = below(16, generator);
    if (kind == 1 || kind == 2 || kind == 5 || kind == 6 || kind == 7) choose_top_p(params, generator);
    if (kind == 3 || kind == 5) params.top_k = one_of(std::array{1, 20, 40, 50, 1000}, generator);
    if (kind == 4 || kind == 6) params.min_p = one_of(std::array{0.02, 0.05, 0.1, 0.3}, generator);
    if (kind == 7 || kind == 8 || kind == 9) choose_typical(params, generator);
    if (kind == 9 || kind == 10) choose_xtc(params, generator);
    if (kind == 11) params.top_n_sigma = one_of(std::array{1.0, 1.5, 2.0, 3.0}, generator);
    if (kind == 12) params.dynatemp_range = one_of(std::array{0.2, 0.5}, generator);
    if (kind == 13) params.mirostat = one_of(std::array<std::uint8_t, 2>{1, 2}, generator);
    if (kind == 13) params.mirostat_tau = one_of(std::array{2.0, 5.0, 8.0}, generator);
    if (kind == 14) params.adaptive_target = one_of(std::array{0.1, 0.3, 0.6}, generator);
    if (kind == 15) {
        // llama.cpp's chain with its defaults.
        params.order = {Step::penalties, Step::dry,   Step::top_n_sigma, Step::top_k,      Step::typical_p,
                        Step::top_p,     Step::min_p, Step::xtc,         Step::temperature};
        params.top_p = 0.95;
        if (one_in(2, generator)) params.top_k = 40;
        if (one_in(2, generator)) params.min_p = 0.05;
    }
}

void choose_penalties(LmCase& out, Generator& generator) {
    SamplingParams& params = out.params;
    if (one_in(2, generator)) params.repetition_penalty = one_of(std::array{1.05, 1.1, 1.3, 0.8}, generator);
    if (one_in(2, generator)) params.frequency_penalty = one_of(std::array{0.1, 0.5, 2.0, -0.5}, generator);
    if (one_in(2, generator)) params.presence_penalty = one_of(std::array{0.3, 1.5, -1.0}, generator);
    if (one_in(3, generator)) params.penalty_last_n = one_of(std::array{0, 1, 20}, generator);
    if (one_in(3, generator)) params.dry_multiplier = one_of(std::array{0.8, 3.0}, generator);
    if (params.dry_multiplier > 0.0 && out.output.size() > 6) {
        // The end stands once before: its follower would go on with the repeat.
        std::copy_n(out.output.end() - 3, 3, out.output.begin());
    }
}

void choose_mask(LmCase& out, Generator& generator) {
    const std::uint32_t kind = below(4, generator);
    out.mask.assign((out.logits.size() + 31) / 32, 0U);
    for (std::uint32_t& word : out.mask) {
        const auto bits = static_cast<std::uint32_t>(generator());
        word = kind == 0               ? bits
               : kind == 1             ? ~(1U << bits % 32)
               : one_in(50, generator) ? 1U << bits % 32
                                       : 0U;
    }
    if (kind < 3) return;
    for (const std::int32_t token : out.best) {
        if (one_in(3, generator)) out.mask[static_cast<std::size_t>(token) / 32] |= 1U << token % 32;
    }
}

void choose_adjustments(LmCase& out, Generator& generator) {
    out.stop_ids = likely_tokens(out, below(3, generator), generator);
    if (one_in(3, generator)) choose_penalties(out, generator);
    if (one_in(4, generator)) {
        for (std::uint32_t count = 1 + below(6, generator); count > 0; --count) {
            const std::int32_t token = likely_token(out, generator);
            const auto halves = static_cast<std::int32_t>(below(41, generator)) - 20;
            out.bias.push_back({token, one_in(20, generator) ? -100.0F : 0.5F * static_cast<float>(halves)});
        }
    }
    if (one_in(4, generator)) choose_mask(out, generator);
    if (one_in(16, generator)) out.allowed_ids = likely_tokens(out, 1 + below(60, generator), generator);
    if (one_in(8, generator)) {
        for (std::uint32_t words = 1 + below(4, generator); words > 0; --words) {
            out.bad_words.push_back(1);
            out.bad_words.push_back(likely_token(out, generator));
        }
    }
    if (!one_in(6, generator)) return;
    out.params.min_tokens = below(30, generator);
    out.params.eos_token_id = out.best.front();
}

void choose_rng(LmCase& out, Generator& generator) {
    out.params.seed = generator();
    if (one_in(5, generator))
        out.params.rng = one_of(std::array{Rng::shvs, Rng::sglang, Rng::vllm}, generator);
    const bool with_children = out.params.rng == Rng::race || out.params.rng == Rng::shvs;
    if (with_children && one_in(4, generator)) out.params.child = below(proto::kMostChildren, generator);
    if (out.params.rng != Rng::shvs || one_in(2, generator)) return;
    const auto blocks = static_cast<std::uint32_t>((out.logits.size() + kBlock - 1) / kBlock);
    for (std::uint32_t count = 1 + below(100, generator); count > 0; --count) {
        out.hot_blocks.push_back(below(blocks, generator));
    }
}

void choose_answers(LmCase& out, Generator& generator) {
    SamplingParams& params = out.params;
    const std::uint32_t kind = below(12, generator);
    if (kind < 6) params.flags = proto::kNoLogprob;
    if (kind == 10 || kind == 11) params.logprobs = 1 + below(20, generator);
    if (kind == 11) params.logprob_mode = proto::LogprobMode::processed;
}

}  // namespace

void fill_lm_row(LmCase& out, std::uint32_t vocab, proto::Dtype dtype, Generator& generator) {
    const float spread = one_of(std::array{2.0F, 2.0F, 2.0F, 2.0F, 1.0F, 0.5F}, generator);
    out.shape.dtype = dtype;
    out.logits.resize(vocab);
    for (float& logit : out.logits) logit = -2.0F + spread * bell(generator);
    const std::uint32_t kind = below(8, generator);
    if (kind < 5) add_head(out.logits, 20 + below(180, generator), 4.0F, 2.0F, generator);
    if (kind == 5) add_head(out.logits, 2, 20.0F, 1.0F, generator);
    if (kind == 6) tie_head(out.logits, generator);
    for (float& logit : out.logits) logit = logit == kNothing ? logit : of_dtype(logit, dtype);
    if (one_in(8, generator)) {
        for (std::uint32_t holes = below(vocab, generator); holes > 0; --holes) {
            out.logits[below(vocab, generator)] = kNothing;
        }
    }
    out.best = best_of(out.logits, 64);
}

RowShape lm_shape(std::uint32_t vocab, std::uint32_t ranks, std::uint32_t tile, proto::Dtype dtype,
                  Generator& generator) {
    RowShape shape;
    shape.dtype = dtype;
    shape.tile = tile;
    shape.columns = 1 + below(2, generator);
    shape.column = below(shape.columns, generator);
    shape.permuted = one_in(2, generator);
    shape.summarised = one_in(2, generator);
    std::vector<std::uint32_t> cuts = {0, vocab};
    while (cuts.size() < ranks + 1) cuts.push_back(below(vocab + 1, generator));
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t rank = 0; rank < ranks; ++rank) shape.shards.push_back(cuts[rank + 1] - cuts[rank]);
    if (one_in(2, generator)) shape.shards.back() += below(300, generator);
    if (one_in(4, generator)) shape.shards.push_back(below(300, generator));
    return shape;
}

void fill_lm_request(LmCase& out, Generator& generator) {
    out.params = {};
    out.bias.clear();
    for (auto* list : {&out.allowed_ids, &out.bad_words, &out.breakers}) list->clear();
    out.mask.clear();
    out.hot_blocks.clear();
    out.params.temperature = one_of(std::array{0.6, 0.7, 0.8, 1.0, 1.0, 1.2, 1.5}, generator);
    if (one_in(16, generator)) out.params.temperature = 0.0;
    out.prompt = likely_tokens(out, below(40, generator), generator);
    out.output = likely_tokens(out, below(40, generator), generator);
    choose_rng(out, generator);
    choose_filters(out.params, generator);
    choose_adjustments(out, generator);
    choose_answers(out, generator);
    bind_request(out);
    Request& request = out.request;
    request.max_length = 100;
    request.random = static_cast<std::uint32_t>(generator());
    request.position_shift = below(1000, generator);
    if (one_in(2, generator)) request.feedback = {static_cast<double>(below(80, generator)) * 0.125, 1.0};
    request.wants_support = one_in(20, generator);
}

}  // namespace croupier::sampler::test
