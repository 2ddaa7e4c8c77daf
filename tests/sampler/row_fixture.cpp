#include "row_fixture.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

#include "sampler/workspace.h"

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
    if (dtype == Dtype::bf16) {
        // Cut silently, the row would be another one than what is said of it.
        if ((bits & 0xFFFFU) != 0 && !std::isnan(value))
            throw std::invalid_argument(std::to_string(value) + " is no value of bf16");
        return bits >> 16U;
    }
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
        ranks_.push_back(rank_of(logits, first, count, generator));
        const Rank& rank = ranks_.back();
        Slice slice = {nullptr, count, first};
        slice.elements = shape_.dtype == Dtype::fp32 ? static_cast<const void*>(rank.wide.data())
                                                     : static_cast<const void*>(rank.narrow.data());
        if (shape_.permuted) {
            slice.blocks = rank.blocks.data();
            slice.places = rank.places.data();
        }
        if (shape_.summarised) {
            const auto stride = static_cast<std::uint32_t>(rank.maxima.size() / shape_.columns);
            slice.summaries = {rank.maxima.data(), stride};
        }
        slices_.push_back(slice);
        first += count;
    }
}

RowFixture::Rank RowFixture::rank_of(const std::vector<float>& logits, std::uint32_t first,
                                     std::uint32_t count, std::mt19937_64& generator) const {
    Rank rank;
    const std::uint32_t first_block = first / kBlock;
    const std::uint32_t blocks = count == 0 ? 0 : (first + count - 1) / kBlock - first_block + 1;
    rank.blocks.resize(blocks);
    std::iota(rank.blocks.begin(), rank.blocks.end(), first_block);
    if (shape_.permuted) std::shuffle(rank.blocks.begin(), rank.blocks.end(), generator);
    rank.places.resize(blocks);
    for (std::uint32_t place = 0; place < blocks; ++place)
        rank.places[rank.blocks[place] - first_block] = place;

    const std::vector<float> entries = entries_of(logits, first, count, rank, generator);
    const std::size_t tile = shape_.tile;
    rank.wide.resize(entries.size() * shape_.columns);
    for (std::uint32_t& element : rank.wide) element = static_cast<std::uint32_t>(generator());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::size_t at = (i / tile * shape_.columns + shape_.column) * tile + i % tile;
        rank.wide[at] = encoded(entries[i], shape_.dtype);
    }
    rank.narrow.resize(rank.wide.size());
    std::transform(rank.wide.begin(), rank.wide.end(), rank.narrow.begin(),
                   [](std::uint32_t element) { return static_cast<std::uint16_t>(element); });
    rank.maxima = maxima_of(logits, first, count, rank);
    return rank;
}

// In the order in which they lie, up to the end of the last tile.
std::vector<float> RowFixture::entries_of(const std::vector<float>& logits, std::uint32_t first,
                                          std::uint32_t count, const Rank& rank,
                                          std::mt19937_64& generator) const {
    const std::size_t tiles = (rank.blocks.size() * kBlock + shape_.tile - 1) / shape_.tile;
    std::vector<float> entries(tiles * shape_.tile, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < rank.blocks.size() * kBlock; ++i) {
        const auto id =
            static_cast<std::uint32_t>(std::size_t{rank.blocks[i / kBlock]} * kBlock + i % kBlock);
        if (id - first < count && id < vocab_) {
            entries[i] = logits[id];
        } else if (generator() % 2 == 0) {
            entries[i] = quantised(50000.0F, shape_.dtype);
        }
    }
    return entries;
}

// As a writer gives them: what is not the rank's, or beyond the vocabulary, is no part of them.
std::vector<float> RowFixture::maxima_of(const std::vector<float>& logits, std::uint32_t first,
                                         std::uint32_t count, const Rank& rank) const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const std::size_t entries = rank.blocks.size() * kBlock;
    const std::size_t tiles = (entries + shape_.tile - 1) / shape_.tile;
    constexpr std::size_t kMore = 3;  // of a column's place than it has tiles
    const std::size_t stride = tiles + kMore;
    std::vector<float> maxima(stride * shape_.columns, kNan);
    float* const own = maxima.data() + shape_.column * stride;
    std::fill_n(own, tiles, -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < entries; ++i) {
        const auto id =
            static_cast<std::uint32_t>(std::size_t{rank.blocks[i / kBlock]} * kBlock + i % kBlock);
        if (id - first >= count || id >= vocab_) continue;
        float& maximum = own[i / shape_.tile];
        if (std::isnan(maximum)) continue;
        maximum = std::isnan(logits[id]) ? logits[id] : std::max(maximum, logits[id]);
    }
    return maxima;
}

RowView RowFixture::view() const {
    return {shape_.dtype, vocab_, shape_.tile, shape_.columns, shape_.column, slices_};
}

}  // namespace croupier::sampler::test
