#include <algorithm>
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
std::size_t index_of(const RowView& view, std::uint32_t entry) {
    const std::size_t tile = entry / view.tile;
    return (tile * view.columns + view.column) * view.tile + entry % view.tile;
}

// Calls visit(id, entry) for each id of the vocabulary that the slice holds.
template <typename Visit>
void visit_ids(const RowView& view, const Slice& slice, Visit visit) {
    if (slice.entries == 0) return;
    const std::uint32_t first_block = slice.first_id / kProposalBlock;
    const std::uint32_t end = slice.first_id + slice.entries;
    const std::uint32_t blocks = (end - 1) / kProposalBlock - first_block + 1;
    for (std::uint32_t place = 0; place < blocks; ++place) {
        const std::uint32_t block = slice.blocks == nullptr ? first_block + place : slice.blocks[place];
        for (std::uint32_t i = 0; i < kProposalBlock; ++i) {
            const std::uint32_t id = block * kProposalBlock + i;
            if (id < slice.first_id || id >= end || id >= view.vocab) continue;
            visit(id, place * kProposalBlock + i);
        }
    }
}

}  // namespace

RowFault read_row(const RowView& view, Left& left) {
    bool nan = false;
    bool positive_infinity = false;
    left.tokens.reserve(view.vocab);
    for (const Slice& slice : view.slices) {
        visit_ids(view, slice, [&](std::uint32_t id, std::uint32_t entry) {
            const double value = value_at(view, slice, index_of(view, entry));
            nan = nan || std::isnan(value);
            positive_infinity = positive_infinity || value == std::numeric_limits<double>::infinity();
            if (value != -std::numeric_limits<double>::infinity())
                left.tokens.push_back({value, static_cast<std::int32_t>(id)});
        });
    }
    std::sort(left.tokens.begin(), left.tokens.end(),
              [](const Token& a, const Token& b) { return a.id < b.id; });
    if (nan) return RowFault::nan;
    return positive_infinity ? RowFault::positive_infinity : RowFault::none;
}

}  // namespace croupier::sampler::reference
