#include "bench/tvd/steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "proto/philox.h"
#include "sampler/blocked_row.h"

namespace croupier::bench {
namespace {

constexpr std::array<double, 4> kTemperatures = {0.6, 0.8, 1.0, 1.2};
constexpr std::uint32_t kFrequent =
    2048;  // half of a history consists of the hottest ids, of which there are this many
constexpr std::uint32_t kBiases = 8;
constexpr std::uint32_t kWholeRowSteps = 16;
// Ids allowed by a grammar form runs, such as digits or words with the same prefix.
constexpr std::uint32_t kLongestRun = 256;
// A mask that leaves less of the row's mass would cost hundreds of proposals per draw.
constexpr double kLeastAllowed = 1.0 / 8.0;

class Dice {
  public:
    explicit Dice(std::uint32_t number) : random_(number) {}

    std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
    bool one_in(std::uint32_t n) { return below(n) == 0; }
    double between(double low, double high) {
        return low + (high - low) * static_cast<double>(random_() >> 11U) * 0x1p-53;
    }
    template <std::size_t kCount>
    double one_of(const std::array<double, kCount>& values) {
        return values[below(kCount)];
    }
    std::uint64_t word() { return random_(); }

  private:
    std::mt19937_64 random_;
};

std::int32_t any_token(const measurement::BenchRows& rows, Dice& dice) {
    const std::uint32_t from = dice.one_in(2) ? std::min(kFrequent, rows.vocab()) : rows.vocab();
    // The last block may have fewer than 64 ids and be anywhere in the order.
    return static_cast<std::int32_t>(std::min(rows.id_at(dice.below(from)), rows.vocab() - 1));
}

// Penalties below 1 or 0 raise the logits of previous tokens.
struct LeastPenalty {
    double factor;
    double difference;
};
constexpr LeastPenalty kAlsoRaising = {0.9, -0.2};
constexpr LeastPenalty kLowering = {1.0, 0.0};

void add_penalties(const measurement::BenchRows& rows, Dice& dice, LeastPenalty least, JudgedStep& step) {
    for (std::uint32_t i = 0; i < kStepHistory; ++i) {
        (i % 2 == 0 ? step.prompt : step.output).push_back(any_token(rows, dice));
    }
    step.params.repetition_penalty = dice.between(least.factor, 1.3);
    step.params.frequency_penalty = dice.between(least.difference, 0.6);
    step.params.presence_penalty = dice.between(least.difference, 0.6);
    for (std::uint32_t i = 0; i < kBiases; ++i) {
        const auto bias = static_cast<float>(dice.between(-4.0, 4.0));
        step.bias.push_back({any_token(rows, dice), bias});
    }
}

double allowed_share(const measurement::BenchRows& rows, const JudgedStep& step) {
    double allowed = 0.0;
    double all = 0.0;
    for (std::uint32_t id = 0; id < rows.vocab(); ++id) {
        const std::uint16_t code = rows.row(step.row)[rows.place_of(id)];
        const float logit = sampler::value_of_code(proto::Dtype::bf16, code);
        const double weight = std::exp(static_cast<double>(logit) / step.params.temperature);
        all += weight;
        if ((step.mask[id / 32] >> (id % 32) & 1U) != 0) allowed += weight;
    }
    return allowed / all;
}

void add_mask(const measurement::BenchRows& rows, Dice& dice, JudgedStep& step) {
    step.mask.assign((rows.vocab() + 31) / 32, 0U);
    const std::uint32_t of_ten = 1 + dice.below(9);
    for (std::uint32_t first = 0; first < rows.vocab();) {
        const std::uint32_t end = std::min(rows.vocab(), first + 1 + dice.below(kLongestRun));
        const bool allowed = dice.below(10) < of_ten;
        for (std::uint32_t id = first; allowed && id < end; ++id) step.mask[id / 32] |= 1U << (id % 32);
        first = end;
    }
    if (allowed_share(rows, step) >= kLeastAllowed) return;
    for (std::uint32_t& word : step.mask) word = ~word;
}

JudgedStep plain_step(const measurement::BenchRows& rows, std::uint32_t number, Dice& dice) {
    JudgedStep step;
    step.row = number % rows.count();
    step.params.flags = proto::kNoLogprob;
    step.params.seed = dice.word();
    return step;
}

}  // namespace

sampler::Request JudgedStep::request(std::uint32_t draw) const {
    sampler::Request request;
    request.params = &params;
    request.prompt = prompt;
    request.output = output;
    request.mask = mask;
    request.bias = bias;
    request.max_length = kStepRoom;
    request.position_shift = draw;
    request.random = proto::random_at(params.seed, sampler::random_position(request), params.child, 0);
    return request;
}

JudgedStep untruncated_step(const measurement::BenchRows& rows, std::uint32_t number) {
    Dice dice(number);
    JudgedStep step = plain_step(rows, number, dice);
    const std::uint32_t setting = number / rows.count();
    step.params.temperature = kTemperatures[setting % kTemperatures.size()];
    step.params.rng = proto::Rng::shvs;  // the test compares draws with each hot set
    const std::uint32_t kind = setting / kTemperatures.size() % 4;
    if ((kind & 1U) != 0) add_penalties(rows, dice, kAlsoRaising, step);
    if ((kind & 2U) != 0) add_mask(rows, dice, step);
    return step;
}

JudgedStep truncated_step(const measurement::BenchRows& rows, std::uint32_t number) {
    Dice dice(number);
    JudgedStep step = plain_step(rows, number, dice);
    step.params.temperature = dice.between(0.3, 1.5);
    constexpr std::array<double, 4> kTopP = {0.5, 0.9, 0.95, 0.99};
    constexpr std::array<double, 5> kTopK = {1.0, 5.0, 20.0, 50.0, 200.0};
    constexpr std::array<double, 3> kMinP = {0.02, 0.05, 0.2};
    const std::uint32_t filters = 1 + dice.below(7);
    if ((filters & 1U) != 0) step.params.top_p = dice.one_of(kTopP);
    if ((filters & 2U) != 0) step.params.top_k = static_cast<std::int32_t>(dice.one_of(kTopK));
    if ((filters & 4U) != 0) step.params.min_p = dice.one_of(kMinP);
    // These two read the whole row at every decision, which takes milliseconds.
    if (dice.one_in(kWholeRowSteps)) step.params.top_n_sigma = dice.between(0.5, 3.0);
    const LeastPenalty least = dice.one_in(kWholeRowSteps) ? kAlsoRaising : kLowering;
    if (dice.one_in(2)) add_penalties(rows, dice, least, step);
    if (dice.one_in(3)) add_mask(rows, dice, step);
    return step;
}

}  // namespace croupier::bench
