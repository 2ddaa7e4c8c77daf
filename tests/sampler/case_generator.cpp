#include "case_generator.h"

#include <algorithm>
#include <array>
#include <limits>

namespace croupier::sampler::test {
namespace {

using Generator = std::mt19937_64;

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

std::vector<float> random_logits(std::uint32_t vocab, proto::Dtype dtype, Generator& generator) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const float spread = one_of(std::array{0.0F, 0.01F, 1.0F, 4.0F, 30.0F, 15000.0F}, generator);
    const bool stepped = one_in(3, generator);
    const std::uint32_t holes = one_of(std::array{0U, 2U, 10U, 1U}, generator);
    const bool mostly_holes = holes == 1 && one_in(4, generator);
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
        const float value = std::clamp(normal(generator) * spread, -60000.0F, 60000.0F);
        logit = quantised(stepped ? static_cast<float>(static_cast<int>(value)) : value, dtype);
        const bool hole = mostly_holes ? !one_in(20, generator) : holes > 1 && one_in(holes, generator);
        if (hole) logit = -std::numeric_limits<float>::infinity();
    }
    return logits;
}

RowShape random_shape(std::uint32_t vocab, Generator& generator) {
    RowShape shape;
    shape.dtype = one_of(std::array{proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}, generator);
    shape.tile = one_of(std::array{1U, 3U, 64U}, generator);
    shape.columns = 1 + below(4, generator);
    shape.column = below(shape.columns, generator);
    shape.permuted = one_in(2, generator);
    std::uint32_t left = vocab;
    for (std::uint32_t rank = below(4, generator); rank > 0; --rank) {
        shape.shards.push_back(below(left + 1, generator));
        left -= shape.shards.back();
    }
    shape.shards.push_back(left);
    return shape;
}

std::vector<std::int32_t> random_tokens(std::uint32_t count, std::uint32_t vocab, Generator& generator) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(below(vocab, generator));
    return tokens;
}

void fill_params(RandomCase& out, std::uint32_t vocab, Generator& generator) {
    proto::SamplingParams& params = out.params;
    params.temperature = one_of(std::array{0.0, 1e-6, 0.005, 0.3, 0.8, 1.0, 1.0, 1.7, 100.0}, generator);
    params.top_p = one_of(std::array{1.0, 1.0, 1.0, 0.95, 0.5, 1e-9, 0.999999}, generator);
    params.min_p = one_of(std::array{0.0, 0.0, 0.0, 0.05, 1.0, 1e-12, 0.5}, generator);
    params.top_k = one_in(2, generator) ? static_cast<std::int32_t>(below(vocab + 5, generator)) - 1 : 0;
    if (one_in(3, generator)) params.top_k = 1 + static_cast<std::int32_t>(below(8, generator));
    params.repetition_penalty = one_of(std::array{1.0, 1.0, 1.3, 0.7, 100.0}, generator);
    params.frequency_penalty = one_of(std::array{0.0, 0.0, 0.4, -2.0}, generator);
    params.presence_penalty = one_of(std::array{0.0, 0.0, 0.25, -1.5}, generator);
    params.eos_token_id = static_cast<std::int32_t>(below(vocab + 1, generator)) - 1;
    params.min_tokens = one_in(3, generator) ? below(12, generator) : 0;
    params.max_tokens = one_in(2, generator) ? params.min_tokens + 1 + below(12, generator) : 0;
    params.flags = one_in(3, generator) ? proto::kIgnoreEos : 0;
}

}  // namespace

void fill_case(RandomCase& out, std::uint32_t vocab, Generator& generator) {
    out.shape = random_shape(vocab, generator);
    out.order_seed = generator();
    out.logits = random_logits(vocab, out.shape.dtype, generator);
    fill_params(out, vocab, generator);
    out.prompt = random_tokens(below(20, generator), vocab, generator);
    out.output = random_tokens(below(15, generator), vocab, generator);
    out.stop_ids = random_tokens(below(4, generator), vocab, generator);
    out.bias.clear();
    for (const std::int32_t token :
         random_tokens(one_in(2, generator) ? below(6, generator) : 0, vocab, generator)) {
        const float bias = static_cast<float>(below(401, generator)) * 0.5F - 100.0F;
        out.bias.push_back({token, one_in(2, generator) ? bias : bias * 0.01F});
    }
    out.mask.clear();
    if (one_in(3, generator)) {
        out.mask.resize((vocab + 31) / 32);
        for (std::uint32_t& word : out.mask) {
            word = one_of(std::array{0U, ~0U, static_cast<std::uint32_t>(generator())}, generator);
        }
    }
    const auto length = static_cast<std::uint32_t>(out.prompt.size() + out.output.size());
    const auto random = static_cast<std::uint32_t>(generator());
    out.request = {&out.params,
                   out.bias,
                   out.stop_ids,
                   out.prompt,
                   out.output,
                   out.mask,
                   length + 1 + below(4, generator),
                   one_of(std::array{random, random, random, 0U, ~0U}, generator)};
}

}  // namespace croupier::sampler::test
