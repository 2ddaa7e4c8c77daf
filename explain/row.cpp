#include "explain/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "proto/geometry.h"

namespace croupier::explain {
namespace {

// The row's column and one neighbour before it, so that tiles have a stride as in a session.
constexpr std::uint32_t kColumns = 2;
constexpr std::uint32_t kColumn = 1;

struct Format {
    int mantissa_bits;
    int min_exponent;  // exponent of the smallest normal number
    int max_exponent;  // exponent of the largest finite number
};

Format format_of(proto::Dtype dtype) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return {.mantissa_bits = 7, .min_exponent = -126, .max_exponent = 127};
        case proto::Dtype::fp16:
            return {.mantissa_bits = 10, .min_exponent = -14, .max_exponent = 15};
        case proto::Dtype::fp32:
            break;
    }
    return {.mantissa_bits = 23, .min_exponent = -126, .max_exponent = 127};
}

}  // namespace

std::uint32_t encode(double value, proto::Dtype dtype) {
    const Format format = format_of(dtype);
    const std::uint32_t sign_shift = proto::element_bytes(dtype) * 8 - 1;
    const std::uint32_t sign = (std::signbit(value) ? 1U : 0U) << sign_shift;
    const auto exponent_field = [&](int biased) {
        return static_cast<std::uint32_t>(biased) << static_cast<std::uint32_t>(format.mantissa_bits);
    };
    const std::uint32_t infinity = exponent_field(2 * format.max_exponent + 1);
    if (std::isnan(value)) return sign | infinity | infinity >> 1U;
    if (std::isinf(value)) return sign | infinity;
    if (value == 0.0) return sign;
    const int exponent = std::max(std::ilogb(value), format.min_exponent);
    if (exponent > format.max_exponent) return sign | infinity;
    // The number in units of its last place, rounded once. A carry increments the exponent.
    const double units = std::nearbyint(std::scalbn(std::abs(value), format.mantissa_bits - exponent));
    const double hidden = std::scalbn(1.0, format.mantissa_bits);
    const bool normal = units >= hidden;
    const auto mantissa = static_cast<std::uint32_t>(normal ? units - hidden : units);
    return sign | (exponent_field(normal ? exponent + format.max_exponent : 0) + mantissa);
}

double decode(std::uint32_t bits, proto::Dtype dtype) {
    const Format format = format_of(dtype);
    const auto mantissa_bits = static_cast<std::uint32_t>(format.mantissa_bits);
    const std::uint32_t sign_shift = proto::element_bytes(dtype) * 8 - 1;
    const double sign = (bits >> sign_shift) != 0 ? -1.0 : 1.0;
    const std::uint32_t magnitude = bits & ((1U << sign_shift) - 1);
    const auto biased = static_cast<int>(magnitude >> mantissa_bits);
    const std::uint32_t mantissa = magnitude & ((1U << mantissa_bits) - 1);
    if (biased == 2 * format.max_exponent + 1) {
        return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                             : sign * std::numeric_limits<double>::infinity();
    }
    const int exponent = std::max(biased - format.max_exponent, format.min_exponent);
    const double units = mantissa + (biased > 0 ? std::scalbn(1.0, format.mantissa_bits) : 0.0);
    return sign * std::scalbn(units, exponent - format.mantissa_bits);
}

Row::Row(const RowShape& shape, std::span<const std::byte> elements) : shape_(shape) {
    proto::Geometry geometry;
    geometry.vocab = shape.vocab;
    geometry.tp = shape.ranks;
    proto::fill_even_shards(geometry);
    const std::size_t bytes = proto::element_bytes(shape.dtype);
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
        const proto::RankShard shard = geometry.shards[rank];
        const std::size_t tiles = (shard.blocks() * proto::kBlockIds + shape.tile - 1) / shape.tile;
        const std::size_t size = tiles * kColumns * shape.tile * bytes;
        memory_.emplace_back((size + sizeof(Line) - 1) / sizeof(Line));
        auto* memory = reinterpret_cast<std::byte*>(memory_.back().data());
        // All bits set is a NaN in each format, which exposes reads of neighbours or padding.
        std::memset(memory, 0xFF, size);
        for (std::uint32_t id = shard.first_id; id < shard.first_id + shard.count; ++id) {
            std::memcpy(memory + place(id, shard.first_id) * bytes, elements.data() + id * bytes, bytes);
        }
        slices_.push_back({.elements = memory, .entries = shard.count, .first_id = shard.first_id});
    }
}

std::size_t Row::place(std::uint32_t id, std::uint32_t rank_first_id) const {
    const std::uint32_t offset = id - rank_first_id / proto::kBlockIds * proto::kBlockIds;
    const std::size_t tile = offset / shape_.tile;
    return (tile * kColumns + kColumn) * shape_.tile + offset % shape_.tile;
}

sampler::RowView Row::view() const {
    return {.dtype = shape_.dtype,
            .vocab = shape_.vocab,
            .tile = shape_.tile,
            .columns = kColumns,
            .column = kColumn,
            .slices = slices_};
}

double Row::logit(std::int32_t token) const {
    const auto id = static_cast<std::uint32_t>(token);
    const auto slice = std::find_if(slices_.begin(), slices_.end(), [&](const sampler::Slice& each) {
        return id - each.first_id < each.entries;
    });
    const std::size_t bytes = proto::element_bytes(shape_.dtype);
    const auto* element = static_cast<const std::byte*>(slice->elements) + place(id, slice->first_id) * bytes;
    std::uint32_t bits = 0;  // assumes a little-endian machine, as shared memory does
    std::memcpy(&bits, element, bytes);
    return decode(bits, shape_.dtype);
}

}  // namespace croupier::explain
