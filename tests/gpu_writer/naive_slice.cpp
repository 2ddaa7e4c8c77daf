#include "tests/gpu_writer/naive_slice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace croupier::testing {
namespace {

using proto::Dtype;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t padding_of(Dtype dtype) {
    if (dtype == Dtype::bf16) return 0xFF80;
    return dtype == Dtype::fp16 ? 0xFC00 : 0xFF800000;
}

}  // namespace

// By the definition of the formats: sign, exponent, fraction.
float naive_value(Dtype dtype, std::uint32_t code) {
    if (dtype == Dtype::fp32) return std::bit_cast<float>(code);
    if (dtype == Dtype::bf16) return std::bit_cast<float>(code << 16U);
    const int exponent = static_cast<int>(code >> 10U & 31U);
    const int fraction = static_cast<int>(code & 1023U);
    const float sign = (code & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) return fraction == 0 ? sign * kInfinity : kNan;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

Rows random_rows(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                 std::uint64_t stride, std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::size_t size = proto::element_bytes(geometry.dtype);
    const std::uint32_t bits = static_cast<std::uint32_t>(size) * 8;
    Rows rows{Bytes(columns * stride * size), stride};
    for (std::size_t column = 0; column < columns; ++column) {
        const std::uint32_t any_in = column % 2 == 0 ? 500 : 20;
        for (std::size_t i = 0; i < geometry.shards[rank].count; ++i) {
            const auto drawn = static_cast<std::uint32_t>(random());
            std::uint32_t code = drawn >> (32U - bits);
            // Without the exponent's uppermost bit it is neither NaN nor infinite.
            if (random() % any_in != 0) code &= ~(1U << (bits - 2));
            std::memcpy(rows.bytes.data() + (column * stride + i) * size, &code, size);
        }
    }
    return rows;
}

Bytes naive_slice(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                  const std::vector<std::uint32_t>& order, const Rows& rows) {
    const std::size_t size = proto::element_bytes(geometry.dtype);
    const proto::RankShard& shard = geometry.shards[rank];
    const std::uint32_t padding = padding_of(geometry.dtype);
    Bytes slice;
    slice.reserve(std::size_t{geometry.tiles(rank)} * columns * geometry.tile * size);
    for (std::size_t tile = 0; tile < geometry.tiles(rank); ++tile) {
        for (std::size_t column = 0; column < columns; ++column) {
            for (std::size_t within = 0; within < geometry.tile; ++within) {
                const std::size_t place = tile * geometry.tile + within;
                const auto* from = reinterpret_cast<const unsigned char*>(&padding);
                if (place / 64 < shard.blocks()) {
                    const std::size_t block =
                        order.empty() ? shard.first_block() + place / 64 : order[place / 64];
                    const std::size_t id = block * 64 + place % 64;
                    const bool own = id >= shard.first_id && id < shard.first_id + shard.count;
                    const std::size_t in_row = column * rows.stride + id - shard.first_id;
                    if (own && id < geometry.vocab) from = rows.bytes.data() + in_row * size;
                }
                slice.insert(slice.end(), from, from + size);
            }
        }
    }
    return slice;
}

std::vector<float> naive_maxima(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                                const Bytes& slice) {
    const std::size_t size = proto::element_bytes(geometry.dtype);
    std::vector<float> maxima;
    for (std::size_t pair = 0; pair < std::size_t{geometry.tiles(rank)} * columns; ++pair) {
        float most = -kInfinity;
        for (std::size_t i = 0; i < geometry.tile && !std::isnan(most); ++i) {
            std::uint32_t code = 0;
            std::memcpy(&code, slice.data() + (pair * geometry.tile + i) * size, size);
            const float value = naive_value(geometry.dtype, code);
            most = std::isnan(value) ? kNan : std::max(most, value);
        }
        maxima.push_back(most);
    }
    return maxima;
}

bool same(float a, float b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace croupier::testing
