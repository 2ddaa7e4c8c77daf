#include "sampler/blocked_row.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "sampler/lean_row.h"
#include "sampler/slice_column.h"

namespace croupier::sampler {
namespace {

using proto::Dtype;

// Columns of whole blocks have all slices lean, or none.
bool leanness_is_consistent(const RowView& view, const Slice& slice) {
    if ((slice.lean != nullptr) != is_lean(view)) return false;
    if (slice.lean == nullptr || slice.entries == 0) return true;
    const LeanColumn& column = *slice.lean;
    const bool sent_lie_somewhere = column.blocks != nullptr && column.elements != nullptr;
    return view.tile == kBlock && column.maxima != nullptr && (column.sent == 0 || sent_lie_somewhere);
}

float value_of_fp16(std::uint32_t code) {
    const std::uint32_t magnitude = code & 0x7FFFU;
    const std::uint32_t sign = (code & 0x8000U) << 16U;
    constexpr std::uint32_t kRebias = 112U << 23U;
    std::uint32_t bits = (magnitude << 13U) + kRebias;
    if (magnitude >= 0x7C00U) bits += kRebias;
    // Through an integer, so that a denormals-are-zero mode of the processor cannot change a subnormal.
    if (magnitude < 0x0400U) {
        bits =
            std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
    }
    return std::bit_cast<float>(bits | sign);
}

class BlockLayer {
  public:
    BlockLayer(const RowView& view, Workspace& workspace)
        : view_(view), workspace_(workspace), bytes_(proto::element_bytes(view.dtype)) {}

    BlockedRow lay() {
        // Where there is one column, tiles of any size lie as one array.
        const bool in_place = view_.columns == 1 || view_.tile == kBlock;
        if (in_place) {
            each_slice(view_, [this](const SliceColumn& slice, const Slice&) { add_slice(slice); });
        } else {
            gather();
        }
        const std::uint32_t blocks = (view_.vocab + kBlock - 1) / kBlock;
        const bool usable = view_.tile == kBlock && all_summarised();
        if (usable) take_summaries();
        return {view_.dtype, workspace_.runs.first(runs_), view_.vocab, blocks, usable};
    }

  private:
    bool all_summarised() const {
        bool all = true;
        each_slice(view_, [&all](const SliceColumn&, const Slice& slice) {
            all = all && slice.summaries.maxima != nullptr;
        });
        return all;
    }

    void add_slice(const SliceColumn& slice) {
        std::uint32_t id = slice.first_id();
        if (id % kBlock != 0) id = add_part(slice, id);
        const std::uint32_t whole = (slice.end() - id) / kBlock;
        if (whole > 0) {
            const std::uint32_t first = id / kBlock;
            const std::size_t stride = std::size_t{view_.columns} * kBlock * bytes_;
            const std::uint32_t* places = slice.places(first);
            const std::size_t before = places == nullptr ? slice.place_of(first) * stride : 0;
            add_run({slice.elements() + before, stride, places, whole, first});
            id += whole * kBlock;
        }
        if (id < slice.end()) add_part(slice, id);
    }

    // What the slice has of a block that is not all its own; returns where that ends.
    std::uint32_t add_part(const SliceColumn& slice, std::uint32_t id) {
        const std::uint32_t block = id / kBlock;
        const std::uint32_t end = std::min(slice.end(), (block + 1) * kBlock);
        const bool begun = runs_ > 0 && workspace_.runs[runs_ - 1].first_block == block;
        if (!begun) {
            part_ = workspace_.tails.data() + tails_++ * kBlock * sizeof(float);
            fill_with_nothing(view_.dtype, part_, 0);
            add_run({part_, 0, nullptr, 1, block});
        }
        slice.copy(id, end, part_ + id % kBlock * bytes_);
        return end;
    }

    void add_run(const BlockRun& run) { workspace_.runs[runs_++] = run; }

    // All slices' ids into one row.
    void gather() {
        std::byte* out = workspace_.gathered.data();
        each_slice(view_, [&](const SliceColumn& slice, const Slice&) {
            for (std::uint32_t id = slice.first_id(); id < slice.end();) {
                const std::uint32_t end = std::min(slice.end(), (id / kBlock + 1) * kBlock);
                gather_block(slice, id, end, out + std::size_t{id} * bytes_);
                id = end;
            }
        });
        const std::uint32_t last = (view_.vocab - 1) / kBlock;
        const std::uint32_t rest = view_.vocab - last * kBlock;
        fill_with_nothing(view_.dtype, out + std::size_t{last} * kBlock * bytes_, rest);
        add_run({out, kBlock * bytes_, nullptr, last + 1, 0});
    }

    void gather_block(const SliceColumn& slice, std::uint32_t id, std::uint32_t end, std::byte* out) const {
        if (view_.tile != 1) {
            slice.copy(id, end, out);
        } else if (bytes_ == sizeof(std::uint16_t)) {
            slice.copy_single(id, end, reinterpret_cast<std::uint16_t*>(out));
        } else {
            slice.copy_single(id, end, reinterpret_cast<std::uint32_t*>(out));
        }
    }

    // A block that several ranks share has the largest of their parts' maxima.
    void take_summaries() {
        float* const maxima = workspace_.block_max.data();
        std::uint32_t known = 0;
        each_slice(view_, [&](const SliceColumn& slice, const Slice&) {
            const std::uint32_t end = (slice.end() + kBlock - 1) / kBlock;
            std::uint32_t block = slice.first_id() / kBlock;
            if (block < known) {
                maxima[block] = larger_or_nan(maxima[block], slice.maximum_of(block, view_.column));
                ++block;
            }
            const std::uint32_t* places = slice.places(block);
            const float* own = slice.maxima(view_.column);
            if (places == nullptr) {
                std::copy_n(own + slice.place_of(block), end - block, maxima + block);
            } else {
                for (std::uint32_t i = 0; i < end - block; ++i) maxima[block + i] = own[places[i]];
            }
            known = end;
        });
    }

    const RowView& view_;
    Workspace& workspace_;
    std::size_t bytes_;
    std::size_t runs_ = 0;
    std::size_t tails_ = 0;
    std::byte* part_ = nullptr;  // the block that is being put together
};

}  // namespace

std::uint32_t negative_infinity_code(Dtype dtype) noexcept {
    switch (dtype) {
        case Dtype::bf16:
            return 0xFF80U;
        case Dtype::fp16:
            return 0xFC00U;
        case Dtype::fp32:
            break;
    }
    return 0xFF800000U;
}

float value_of_code(Dtype dtype, std::uint32_t code) noexcept {
    switch (dtype) {
        case Dtype::bf16:
            return std::bit_cast<float>(code << 16U);
        case Dtype::fp16:
            return value_of_fp16(code);
        case Dtype::fp32:
            break;
    }
    return std::bit_cast<float>(code);
}

bool view_is_consistent(const RowView& view) noexcept {
    if (view.tile == 0 || view.column >= view.columns || view.slices.size() > kMaxSlices) return false;
    if (view.dtype > Dtype::fp32) return false;
    // So that a block's end is a number of 32 bits too.
    constexpr std::uint64_t kMostIds = std::numeric_limits<std::uint32_t>::max() - kBlock;
    std::uint64_t covered = 0;
    for (const Slice& slice : view.slices) {
        if (slice.first_id != covered) return false;
        if (slice.entries > 0 && slice.elements == nullptr) return false;
        if ((slice.blocks == nullptr) != (slice.places == nullptr)) return false;
        if (!leanness_is_consistent(view, slice)) return false;
        covered += slice.entries;
        if (covered > kMostIds) return false;
    }
    return covered >= view.vocab && view.vocab > 0;
}

BlockedRow lay_in_blocks(const RowView& view, Workspace& workspace) noexcept {
    return is_lean(view) ? lay_lean(view, workspace) : BlockLayer(view, workspace).lay();
}

}  // namespace croupier::sampler
