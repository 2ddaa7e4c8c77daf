#include "case_generator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#include "proto/dtype.h"
#include "proto/sampling.h"
#include "sampler/race_arrivals.h"
#include "sampler/race_key.h"

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

float random_logit(float spread, bool stepped, Generator& generator) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const float value = std::clamp(normal(generator) * spread, -60000.0F, 60000.0F);
    return stepped ? static_cast<float>(static_cast<int>(value)) : value;
}

std::vector<float> random_logits(std::uint32_t vocab, proto::Dtype dtype, Generator& generator) {
    const float spread =
        one_of(std::array{0.0F, 0.01F, 1.0F, 2.0F, 4.0F, 30.0F, 15000.0F, 1e-39F, 1e-20F}, generator);
    const float centre = one_of(std::array{0.0F, 0.0F, -5.0F, 5.0F}, generator);
    const bool stepped = one_in(3, generator);
    const std::uint32_t holes = one_of(std::array{0U, 0U, 2U, 10U, 1U}, generator);
    const bool mostly_holes = holes == 1 && one_in(4, generator);
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
        logit = quantised(random_logit(spread, stepped, generator) + centre, dtype);
        const bool hole = mostly_holes ? !one_in(20, generator) : holes > 1 && one_in(holes, generator);
        if (hole) logit = -std::numeric_limits<float>::infinity();
    }
    if (one_in(100, generator)) logits[below(vocab, generator)] = std::numeric_limits<float>::infinity();
    if (one_in(100, generator)) logits[below(vocab, generator)] = std::numeric_limits<float>::quiet_NaN();
    return logits;
}

RowShape random_shape(std::uint32_t vocab, Generator& generator) {
    RowShape shape;
    // fp32 twice: its classes hold several values.
    shape.dtype =
        one_of(std::array{proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32, proto::Dtype::fp32},
               generator);
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
    // vLLM pads the vocabulary, perhaps by a whole rank's share.
    if (one_in(3, generator)) shape.shards.back() += below(200, generator);
    if (one_in(6, generator)) shape.shards.push_back(below(200, generator));
    return shape;
}

std::vector<std::int32_t> random_tokens(std::uint32_t count, std::uint32_t vocab, Generator& generator) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(below(vocab, generator));
    return tokens;
}

// Few tokens, so that they repeat.
std::vector<std::int32_t> random_history(std::uint32_t count, std::uint32_t vocab, Generator& generator) {
    const std::uint32_t some = one_in(2, generator) ? std::min(vocab, 3U) : vocab;
    return random_tokens(count, some, generator);
}

std::vector<std::int32_t> random_lists(std::uint32_t lists, std::uint32_t vocab, Generator& generator) {
    std::vector<std::int32_t> all;
    for (; lists > 0; --lists) {
        const auto words = random_history(1 + below(3, generator), vocab, generator);
        all.push_back(static_cast<std::int32_t>(words.size()));
        all.insert(all.end(), words.begin(), words.end());
    }
    return all;
}

void fill_classic_params(proto::SamplingParams& params, std::uint32_t vocab, Generator& generator) {
    params.temperature = one_of(std::array{0.0, 1e-6, 0.005, 0.3, 0.8, 1.0, 1.0, 1.7, 100.0}, generator);
    params.top_p = one_of(std::array{1.0, 1.0, 1.0, 0.95, 0.5, 1e-9, 0.999999}, generator);
    params.min_p = one_of(std::array{0.0, 0.0, 0.0, 0.05, 1.0, 1e-12, 0.5}, generator);
    params.top_k = one_in(2, generator) ? static_cast<std::int32_t>(below(vocab + 5, generator)) - 1 : 0;
    if (one_in(3, generator)) params.top_k = 1 + static_cast<std::int32_t>(below(8, generator));
    params.repetition_penalty = one_of(std::array{1.0, 1.0, 1.3, 0.7, 100.0}, generator);
    params.frequency_penalty = one_of(std::array{0.0, 0.0, 0.4, -2.0}, generator);
    params.presence_penalty = one_of(std::array{0.0, 0.0, 0.25, -1.5}, generator);
    params.penalty_last_n = one_of(std::array{-1, -1, -1, 0, 1, 7, 1000}, generator);
    params.eos_token_id = static_cast<std::int32_t>(below(vocab + 1, generator)) - 1;
    params.min_tokens = one_in(3, generator) ? below(12, generator) : 0;
    params.max_tokens = one_in(2, generator) ? params.min_tokens + 1 + below(12, generator) : 0;
    params.flags = one_in(3, generator) ? proto::kIgnoreEos : 0;
    if (one_in(3, generator)) params.flags |= proto::kNoLogprob;
    if (one_in(4, generator)) params.flags |= proto::kStopsOnlyBan;
    if (one_in(3, generator)) params.flags |= proto::kRankCountsTies;
    params.logprobs = one_in(4, generator) ? below(30, generator) : 0;
    params.support = one_in(4, generator) ? 1 + below(50, generator) : 0;
    if (one_in(4, generator)) params.logprob_mode = proto::LogprobMode::processed;
}

void fill_other_params(proto::SamplingParams& params, Generator& generator) {
    const auto sometimes = [&](std::uint32_t odds) { return one_in(odds, generator); };
    if (sometimes(6)) params.dynatemp_range = one_of(std::array{0.2, 1.0, 50.0}, generator);
    if (sometimes(3)) params.dynatemp_exponent = one_of(std::array{0.0, 0.5, 3.0}, generator);
    if (sometimes(6)) params.top_n_sigma = one_of(std::array{0.1, 1.0, 3.0}, generator);
    if (sometimes(6)) params.typical_p = one_of(std::array{0.1, 0.9, 0.999}, generator);
    if (sometimes(6)) params.xtc_probability = one_of(std::array{0.5, 1.0}, generator);
    params.xtc_threshold = one_of(std::array{0.1, 0.0, 0.01, 0.5, 0.6}, generator);
    if (sometimes(4)) params.dry_multiplier = one_of(std::array{0.8, 3.0}, generator);
    params.dry_base = one_of(std::array{1.75, 1.0, 20.0}, generator);
    params.dry_allowed_length = one_of(std::array{1, 2, 2, 4}, generator);
    params.dry_penalty_last_n = one_of(std::array{-1, -1, 0, 5, 100}, generator);
    if (sometimes(10)) params.mirostat = one_of(std::array<std::uint8_t, 2>{1, 2}, generator);
    params.mirostat_tau = one_of(std::array{5.0, 0.0, 1.0}, generator);
    params.mirostat_eta = one_of(std::array{0.1, 0.0, 1.0}, generator);
    if (params.mirostat == 0 && sometimes(10)) {
        params.adaptive_target = one_of(std::array{0.0, 0.3, 1.0}, generator);
        params.adaptive_decay = one_of(std::array{0.0, 0.9, 0.99}, generator);
    }
    if (sometimes(8)) {
        params.rng = one_of(std::array{proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm}, generator);
    }
}

void fill_order(proto::SamplingParams& params, Generator& generator) {
    params.order = {};
    if (!one_in(4, generator)) return;
    constexpr auto kSteps = static_cast<std::uint32_t>(proto::Step::count_) - 1;
    std::vector<proto::Step> steps(proto::kDefaultOrder.begin(), proto::kDefaultOrder.begin() + kSteps);
    std::shuffle(steps.begin(), steps.end(), generator);
    steps.resize(1 + below(kSteps, generator));
    std::copy(steps.begin(), steps.end(), params.order.begin());
}

void fill_params(RandomCase& out, std::uint32_t vocab, Generator& generator) {
    out.params = {};
    out.params.seed = generator();
    fill_classic_params(out.params, vocab, generator);
    if (one_in(2, generator)) fill_other_params(out.params, generator);
    fill_order(out.params, generator);
    const bool with_children = out.params.rng == proto::Rng::race || out.params.rng == proto::Rng::shvs;
    if (with_children && one_in(4, generator)) out.params.child = below(proto::kMostChildren, generator);
}

// In a case of three, by the seed of its order likewise: histories are short.
void fill_loops(RandomCase& out) {
    const std::uint64_t kind = out.order_seed / 8;
    if (kind % 3 != 0) return;
    out.params.loop_max_period = static_cast<std::uint16_t>(1 + kind / 3 % 7);
    out.params.loop_min_period = static_cast<std::uint16_t>(kind / 21 % (out.params.loop_max_period + 1U));
    out.params.loop_count = static_cast<std::uint8_t>(2 + kind / 210 % 2);
}

// In a case of four its race was prepared, in another of four some other race, or one over more blocks. By
// the seed of its order: what the generator gives stays as it was.
void prepare_race(RandomCase& out, std::uint32_t vocab) {
    const auto kind = static_cast<std::uint32_t>(out.order_seed % 8);
    if (kind > 3) return;
    proto::race::Key key = race_key(out.params, out.request);
    if (kind == 2) ++key.position;
    const std::uint32_t blocks = (vocab + kBlock - 1) / kBlock + (kind == 3 ? 1 : 0);
    out.ln_first_arrivals.resize(blocks);
    make_first_arrivals(key, out.ln_first_arrivals);
    out.request.prepared = {key, out.ln_first_arrivals};
}

}  // namespace

void bind_request(RandomCase& out) {
    Request& request = out.request;
    request = {};
    request.params = &out.params;
    request.bias = out.bias;
    request.stop_ids = out.stop_ids;
    request.allowed_ids = out.allowed_ids;
    request.bad_words = out.bad_words;
    request.dry_breakers = out.breakers;
    request.prompt = out.prompt;
    request.output = out.output;
    request.mask = out.mask;
    request.hot_blocks = out.hot_blocks;
}

void fill_case(RandomCase& out, std::uint32_t vocab, Generator& generator) {
    out.shape = random_shape(vocab, generator);
    out.order_seed = generator();
    out.logits = random_logits(vocab, out.shape.dtype, generator);
    fill_params(out, vocab, generator);
    fill_loops(out);
    out.prompt = random_history(below(20, generator), vocab, generator);
    out.output = random_history(below(15, generator), vocab, generator);
    out.stop_ids = random_tokens(below(4, generator), vocab, generator);
    out.allowed_ids = random_tokens(one_in(8, generator) ? below(40, generator) : 0, vocab, generator);
    out.bad_words = random_lists(one_in(3, generator) ? below(4, generator) : 0, vocab, generator);
    out.breakers = random_lists(one_in(3, generator) ? below(3, generator) : 0, vocab, generator);
    // An id outside the vocabulary, somewhere.
    if (one_in(200, generator) && !out.output.empty()) out.output.front() = static_cast<std::int32_t>(vocab);
    if (one_in(200, generator) && !out.allowed_ids.empty()) out.allowed_ids.back() = -1;
    if (one_in(200, generator) && !out.bad_words.empty()) out.bad_words.front() += 7;
    out.bias.clear();
    for (const std::int32_t token :
         random_tokens(one_in(2, generator) ? below(6, generator) : 0, vocab, generator)) {
        const float bias = static_cast<float>(below(401, generator)) * 0.5F - 100.0F;
        out.bias.push_back({token, one_in(2, generator) ? bias : bias * 0.01F});
    }
    out.mask.clear();
    if (one_in(3, generator)) {
        const bool sparse = one_in(4, generator);
        out.mask.resize((vocab + 31) / 32);
        for (std::uint32_t& word : out.mask) {
            word = one_of(std::array{0U, ~0U, static_cast<std::uint32_t>(generator())}, generator);
            if (sparse) word = one_in(16, generator) ? 1U << below(32, generator) : 0U;
        }
    }
    out.hot_blocks.clear();
    if (one_in(4, generator)) {
        // In no order; some are no blocks of the row, or come twice.
        const std::uint32_t blocks = vocab / kBlock + 2;
        out.hot_blocks.resize(1 + below(one_of(std::array{1U, 3U, blocks}, generator), generator));
        for (std::uint32_t& block : out.hot_blocks) block = below(blocks, generator);
    }
    const auto length = static_cast<std::uint32_t>(out.prompt.size() + out.output.size());
    const auto random = static_cast<std::uint32_t>(generator());
    bind_request(out);
    Request& request = out.request;
    request.max_length = length + 1 + below(4, generator);
    request.random = one_of(std::array{random, random, random, 0U, ~0U}, generator);
    request.position_shift = one_in(4, generator) ? below(1000, generator) : 0;
    if (one_in(2, generator)) request.feedback = {static_cast<double>(below(80, generator)) * 0.1, 1.0};
    request.wants_support = one_in(4, generator);
    prepare_race(out, vocab);
}

std::string describe(const RandomCase& random_case) {
    const proto::SamplingParams& p = random_case.params;
    std::ostringstream text;
    text << "vocabulary " << random_case.logits.size() << ", dtype "
         << static_cast<int>(random_case.shape.dtype);
    proto::for_each_sampling_field([&](const auto& field) {
        if (p.*field.member == proto::SamplingParams{}.*field.member) return;
        text << ", " << field.name << ' ' << field.number(p);
    });
    text << ", order";
    for (const proto::Step step : p.order) text << ' ' << static_cast<int>(step);
    text << ", bias " << random_case.bias.size() << ", allowed " << random_case.allowed_ids.size()
         << ", mask " << random_case.mask.size() << ", hot";
    for (const std::uint32_t block : random_case.hot_blocks) text << ' ' << block;
    return text.str();
}

}  // namespace croupier::sampler::test
