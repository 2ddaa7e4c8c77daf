#include "bench/shvs/full_port.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace croupier::bench {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

}  // namespace

FullPort::FullPort(std::uint32_t vocab, bool keeps_counts)
    : keeps_counts_(keeps_counts),
      values_(vocab),
      sorted_(vocab),
      ids_(vocab),
      in_prompt_(vocab),
      counts_(vocab) {}

void FullPort::count(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) {
    std::fill(in_prompt_.begin(), in_prompt_.end(), std::uint8_t{0});
    std::fill(counts_.begin(), counts_.end(), 0U);
    for (const std::int32_t token : prompt) in_prompt_[static_cast<std::size_t>(token)] = 1;
    for (const std::int32_t token : output) ++counts_[static_cast<std::size_t>(token)];
}

void FullPort::begin(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) {
    if (keeps_counts_) count(prompt, output);
}

void FullPort::penalise(const proto::SamplingParams& params) {
    const auto repetition = static_cast<float>(params.repetition_penalty);
    const auto frequency = static_cast<float>(params.frequency_penalty);
    const auto presence = static_cast<float>(params.presence_penalty);
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const bool seen = in_prompt_[i] != 0 || counts_[i] != 0;
        const float factor = seen ? repetition : 1.0F;
        float& value = values_[i];
        value = value > 0.0F ? value / factor : value * factor;
        value -= frequency * static_cast<float>(counts_[i]);
        value -= counts_[i] != 0 ? presence : 0.0F;
    }
}

// Applies top_k and top_p by sorting the whole row.
void FullPort::cut(const proto::SamplingParams& params) {
    std::iota(ids_.begin(), ids_.end(), 0U);
    std::sort(ids_.begin(), ids_.end(), [this](auto a, auto b) { return values_[a] > values_[b]; });
    const float best = values_[ids_[0]];
    double total = 0.0;
    const auto k = params.top_k > 0 ? static_cast<std::size_t>(params.top_k) : ids_.size();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        sorted_[i] = i < k ? std::exp(values_[ids_[i]] - best) : 0.0F;
        total += static_cast<double>(sorted_[i]);
    }
    double before = 0.0;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        if (i >= k || before >= params.top_p * total) values_[ids_[i]] = kNothing;
        before += static_cast<double>(sorted_[i]);
    }
}

void FullPort::soften(double min_p) {
    const float best = *std::max_element(values_.begin(), values_.end());
    const auto least = static_cast<float>(min_p);
    for (float& value : values_) {
        value = std::exp(value - best);
        if (value < least) value = 0.0F;
    }
}

// Chooses the largest p / q with exponential q, as engines implement multinomial draws.
std::uint32_t FullPort::draw() {
    std::uint32_t best = 0;
    float highest = -1.0F;
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const float uniform = (static_cast<float>(random_() >> 8U) + 0.5F) * 0x1p-23F;
        const float score = values_[i] / -std::log(uniform);
        if (score > highest) {
            highest = score;
            best = static_cast<std::uint32_t>(i);
        }
    }
    return best;
}

std::uint32_t FullPort::decide(const std::uint16_t* row, const proto::SamplingParams& params,
                               std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
        values_[i] = std::bit_cast<float>(std::uint32_t{row[i]} << 16U);
    }
    const bool penalised =
        params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
    if (penalised && !keeps_counts_) count(prompt, output);
    if (penalised) penalise(params);
    const auto temperature = static_cast<float>(params.temperature);
    for (float& value : values_) value /= temperature;
    if (params.top_k > 0 || params.top_p < 1.0) cut(params);
    soften(params.min_p);
    return draw();
}

}  // namespace croupier::bench
