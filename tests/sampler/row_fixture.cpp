#include "row_fixture.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace croupier::sampler::test {
namespace {

using proto::Dtype;

float half_value(std::uint16_t bits) {
    const int exponent = (bits >> 10U) & 0x1F;
    const int mantissa = bits & 0x3FF;
    const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) {
        if (mantissa != 0) return std::numeric_limits<float>::quiet_NaN();
        return sign * std::numeric_limits<float>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
    return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

const std::map<float, std::uint16_t>& halves_by_value() {
    static const std::map<float, std::uint16_t> halves = [] {
        std::map<float, std::uint16_t> result;
        for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
            const float value = half_value(static_cast<std::uint16_t>(bits));
            if (!std::isnan(value)) result.emplace(value, static_cast<std::uint16_t>(bits));
        }
        return result;
    }();
    return halves;
}

std::uint32_t encoded(float value, Dtype dtype) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (dtype == Dtype::fp32) return bits;
    if (dtype == Dtype::bf16) return bits >> 16U;
    return std::isnan(value) ? 0x7E00U : halves_by_value().at(value);
}

}  // namespace

float value_of(std::uint16_t bits, Dtype dtype) {
    return dtype == Dtype::bf16 ? std::bit_cast<float>(std::uint32_t{bits} << 16U) : half_value(bits);
}

float quantised(float value, Dtype dtype) {
    if (std::isinf(value) || dtype == Dtype::fp32) return value;
    if (dtype == Dtype::fp16) return std::prev(halves_by_value().upper_bound(value))->first;
    const float cut = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U);
    return cut <= value ? cut : std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) + 0x10000U);
}

RowFixture::RowFixture(const std::vector<float>& logits, const RowShape& shape, std::uint64_t order_seed)
    : shape_(shape), vocab_(static_cast<std::uint32_t>(logits.size())) {
    if (shape_.shards.empty()) shape_.shards = {vocab_};
    std::mt19937_64 generator(order_seed);
    std::uint32_t first = 0;
    for (const std::uint32_t count : shape_.shards) {
        add_rank(logits, first, count, generator);
        first += count;
    }
    for (std::size_t rank = 0; rank < slices_.size(); ++rank) {
        Slice& slice = slices_[rank];
        slice.elements = shape_.dtype == Dtype::fp32 ? static_cast<const void*>(wide_[rank].data())
                                                     : static_cast<const void*>(narrow_[rank].data());
        slice.ids = shape_.permuted ? ids_[rank].data() : nullptr;
        if (shape_.summarised) {
            slice.summaries = {maxima_[rank].data(),
                               static_cast<std::uint32_t>(maxima_[rank].size() / shape_.columns)};
        }
    }
}

void RowFixture::add_rank(const std::vector<float>& logits, std::uint32_t first, std::uint32_t count,
                          std::mt19937_64& generator) {
    std::vector<std::int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(first));
    if (shape_.permuted) std::shuffle(ids.begin(), ids.end(), generator);
    order_.insert(order_.end(), ids.begin(), ids.end());

    const std::uint32_t tile = shape_.tile;
    const std::size_t tiles = (count + tile - 1) / tile;
    std::vector<std::uint32_t> elements(tiles * shape_.columns * tile);
    for (std::uint32_t& element : elements) element = static_cast<std::uint32_t>(generator());
    for (std::size_t i = 0; i < tiles * tile; ++i) {
        const std::size_t at = (i / tile * shape_.columns + shape_.column) * tile + i % tile;
        const float value =
            i < count ? logits[static_cast<std::size_t>(ids[i])] : std::numeric_limits<float>::quiet_NaN();
        elements[at] = encoded(value, shape_.dtype);
    }
    std::vector<std::uint16_t> narrow(elements.size());
    std::transform(elements.begin(), elements.end(), narrow.begin(),
                   [](std::uint32_t element) { return static_cast<std::uint16_t>(element); });
    maxima_.push_back(tile_maxima(logits, ids));
    ids_.push_back(std::move(ids));
    wide_.push_back(std::move(elements));
    narrow_.push_back(std::move(narrow));
    slices_.push_back({nullptr, count, first, nullptr});
}

std::vector<float> RowFixture::tile_maxima(const std::vector<float>& logits,
                                           const std::vector<std::int32_t>& ids) const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const std::size_t tiles = (ids.size() + shape_.tile - 1) / shape_.tile;
    constexpr std::size_t kMore = 3;  // of a column's place than it has tiles
    const std::size_t stride = tiles + kMore;
    std::vector<float> maxima(stride * shape_.columns, kNan);
    for (std::size_t tile = 0; tile < tiles; ++tile) {
        float& maximum = maxima[shape_.column * stride + tile];
        maximum = -std::numeric_limits<float>::infinity();
        const std::size_t end = std::min(ids.size(), (tile + 1) * shape_.tile);
        for (std::size_t i = tile * shape_.tile; i < end && !std::isnan(maximum); ++i) {
            const float logit = logits[static_cast<std::size_t>(ids[i])];
            maximum = std::isnan(logit) ? logit : std::max(maximum, logit);
        }
    }
    return maxima;
}

RowView RowFixture::view() const {
    return {shape_.dtype, vocab_, shape_.tile, shape_.columns, shape_.column, slices_};
}

}  // namespace croupier::sampler::test
