#include "bench/rounding/moved_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace croupier::bench {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

std::uint16_t bf16_code_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

}  // namespace

MovedRow::MovedRow(proto::Dtype dtype, std::vector<float> values)
    : dtype_(dtype), values_(std::move(values)), order_(values_.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
        return values_[a] > values_[b] || (values_[a] == values_[b] && a < b);
    });
    lay();
    note_maxima();
    slice_.elements = elements_.data();
    slice_.entries = vocab();
    slice_.summaries = {maxima_.data(), static_cast<std::uint32_t>(maxima_.size())};
}

void MovedRow::lay() {
    std::vector<float> blocks = values_;
    blocks.resize((values_.size() + sampler::kBlock - 1) / sampler::kBlock * sampler::kBlock, kNothing);
    elements_.resize(blocks.size());
    if (dtype_ == proto::Dtype::fp32) {
        std::memcpy(elements_.data(), blocks.data(), blocks.size() * sizeof(float));
        return;
    }
    std::vector<std::uint16_t> codes(blocks.size());
    std::transform(blocks.begin(), blocks.end(), codes.begin(), bf16_code_of);
    std::memcpy(elements_.data(), codes.data(), codes.size() * sizeof(std::uint16_t));
}

void MovedRow::note_maxima() {
    for (std::size_t first = 0; first < values_.size(); first += sampler::kBlock) {
        const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(first);
        const std::size_t count = std::min<std::size_t>(sampler::kBlock, values_.size() - first);
        maxima_.push_back(*std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
}

std::vector<double> MovedRow::probabilities(const proto::SamplingParams& params) const {
    const std::size_t kept_by_top_k =
        params.top_k > 0 ? std::min<std::size_t>(static_cast<std::size_t>(params.top_k), order_.size())
                         : order_.size();
    const auto most = static_cast<double>(values_[order_.front()]);
    std::vector<double> shares(values_.size());
    double all = 0.0;
    for (std::size_t i = 0; i < kept_by_top_k; ++i) {
        const std::uint32_t id = order_[i];
        shares[id] = std::exp((static_cast<double>(values_[id]) - most) / params.temperature);
        all += shares[id];
    }
    double kept = 0.0;
    for (std::size_t i = 0; i < kept_by_top_k; ++i) {
        double& share = shares[order_[i]];
        if (kept >= params.top_p * all) share = 0.0;
        kept += share;
    }
    for (double& share : shares) share /= kept;
    return shares;
}

std::vector<float> with_noise(std::span<const float> values, double sigma, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> noise(0.0, sigma);
    std::vector<float> moved;
    moved.reserve(values.size());
    for (const float value : values)
        moved.push_back(static_cast<float>(static_cast<double>(value) + noise(generator)));
    return moved;
}

std::vector<float> rounded_to_bf16(std::span<const float> values) {
    std::vector<float> rounded;
    rounded.reserve(values.size());
    for (const float value : values)
        rounded.push_back(std::bit_cast<float>(std::uint32_t{bf16_code_of(value)} << 16U));
    return rounded;
}

double total_variation(std::span<const double> one, std::span<const double> other) {
    double sum = 0.0;
    for (std::size_t i = 0; i < one.size(); ++i) sum += std::abs(one[i] - other[i]);
    return sum / 2.0;
}

}  // namespace croupier::bench
