#include <bit>
#include <cmath>
#include <limits>

#include "sampler/proposals.h"
#include "sampler/reference/left.h"

namespace croupier::sampler::reference {
namespace {

double bf16_value(std::uint16_t bits) {
    return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16U));
}

double fp16_value(std::uint16_t bits) {
    const int exponent = (bits >> 10U) & 0x1F;
    const int mantissa = bits & 0x3FF;
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
        return sign * (mantissa == 0 ? std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::quiet_NaN());
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double value_at(const RowView& view, const Slice& slice, std::size_t index) {
    switch (view.dtype) {
        case proto::Dtype::bf16:
            return bf16_value(static_cast<const std::uint16_t*>(slice.elements)[index]);
        case proto::Dtype::fp16:
            return fp16_value(static_cast<const std::uint16_t*>(slice.elements)[index]);
        case proto::Dtype::fp32:
            break;
    }
    return static_cast<double>(static_cast<const float*>(slice.elements)[index]);
}

// Elements lie as [tile][column][place in the tile].
std::size_t index_of(const RowView& view, std::uint32_t position) {
    const std::size_t tile = position / view.tile;
    return (tile * view.columns + view.column) * view.tile + position % view.tile;
}

// -1 for an id outside the rank's own.
std::int32_t token_at(const Slice& slice, std::uint32_t position) {
    if (slice.ids == nullptr) return static_cast<std::int32_t>(slice.first_id + position);
    const auto id = static_cast<std::uint32_t>(slice.ids[position]);
    return id >= slice.first_id && id - slice.first_id < slice.entries ? static_cast<std::int32_t>(id) : -1;
}

}  // namespace

RowFault read_row(const RowView& view, Left& left) {
    bool nan = false;
    bool positive_infinity = false;
    bool bad_token = false;
    left.tokens.reserve(view.vocab);
    std::uint32_t first_place = 0;
    for (const Slice& slice : view.slices) {
        for (std::uint32_t position = 0; position < slice.entries; ++position) {
            const double value = value_at(view, slice, index_of(view, position));
            const std::int32_t id = token_at(slice, position);
            nan = nan || std::isnan(value);
            positive_infinity = positive_infinity || value == std::numeric_limits<double>::infinity();
            bad_token = bad_token || id < 0;
            if (value != -std::numeric_limits<double>::infinity())
                left.tokens.push_back({value, id, first_place + position});
        }
        first_place += (slice.entries + kProposalBlock - 1) / kProposalBlock * kProposalBlock;
    }
    if (nan) return RowFault::nan;
    if (positive_infinity) return RowFault::positive_infinity;
    return bad_token ? RowFault::bad_token : RowFault::none;
}

}  // namespace croupier::sampler::reference
