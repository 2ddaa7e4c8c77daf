#include "sampler/blocked_row.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace croupier::sampler {
namespace {

using proto::Dtype;

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

template <typename Element>
void gather_column(const RowView& view, const Slice& slice, Element* out) {
    const Element* column =
        static_cast<const Element*>(slice.elements) + std::size_t{view.column} * view.tile;
    const std::size_t stride = std::size_t{view.columns} * view.tile;
    if (view.tile == 1) {
        for (std::uint32_t i = 0; i < slice.entries; ++i) out[i] = column[i * stride];
        return;
    }
    for (std::uint32_t first = 0; first < slice.entries; first += view.tile, column += stride) {
        std::memcpy(out + first, column, std::min(view.tile, slice.entries - first) * sizeof(Element));
    }
}

class BlockLayer {
  public:
    BlockLayer(const RowView& view, Workspace& workspace)
        : view_(view), workspace_(workspace), bytes_(proto::element_bytes(view.dtype)) {}

    BlockedRow lay() {
        for (std::uint32_t i = 0; i < view_.slices.size(); ++i) {
            if (view_.slices[i].entries > 0) add_slice(i);
        }
        const bool summarised = std::all_of(
            view_.slices.begin(), view_.slices.end(),
            [&](const Slice& slice) { return slice.entries == 0 || slice.summaries.maxima != nullptr; });
        const bool usable = summarised && view_.tile == kBlock;
        if (usable) take_summaries();
        return {view_.dtype, workspace_.runs.first(runs_), blocks_, usable};
    }

  private:
    void add_slice(std::uint32_t number) {
        const Slice& slice = view_.slices[number];
        const std::size_t block_bytes = std::size_t{kBlock} * bytes_;
        const auto* elements = static_cast<const std::byte*>(slice.elements);
        std::size_t stride = block_bytes;
        if (view_.columns > 1 && view_.tile == kBlock) {
            elements += view_.column * block_bytes;
            stride = view_.columns * block_bytes;
        } else if (view_.columns > 1) {
            elements = gather(slice);
        }
        const std::uint32_t whole = slice.entries / kBlock;
        const std::uint32_t rest = slice.entries % kBlock;
        if (whole > 0) add_run({elements, stride, whole, blocks_, slice.first_id, whole * kBlock, number, 0});
        if (rest == 0) return;
        std::byte* tail = workspace_.tails.data() + tails_++ * kBlock * sizeof(float);
        std::memcpy(tail, elements + whole * stride, rest * bytes_);
        fill_with_nothing(tail, rest);
        add_run({tail, block_bytes, 1, blocks_, slice.first_id + whole * kBlock, rest, number, whole});
    }

    void add_run(const BlockRun& run) {
        workspace_.runs[runs_++] = run;
        blocks_ += run.blocks;
    }

    const std::byte* gather(const Slice& slice) {
        std::byte* out = workspace_.gathered.data() + std::size_t{slice.first_id} * bytes_;
        if (bytes_ == sizeof(std::uint16_t)) {
            gather_column(view_, slice, reinterpret_cast<std::uint16_t*>(out));
        } else {
            gather_column(view_, slice, reinterpret_cast<std::uint32_t*>(out));
        }
        return out;
    }

    void fill_with_nothing(std::byte* tail, std::uint32_t from) const {
        const std::uint32_t nothing = negative_infinity_code(view_.dtype);
        for (std::uint32_t i = from; i < kBlock; ++i) std::memcpy(tail + i * bytes_, &nothing, bytes_);
    }

    void take_summaries() {
        std::uint32_t block = 0;
        for (const Slice& slice : view_.slices) {
            if (slice.entries == 0) continue;
            const TileSummaries& summaries = slice.summaries;
            const std::uint32_t tiles = (slice.entries + kBlock - 1) / kBlock;
            std::memcpy(&workspace_.block_max[block],
                        summaries.maxima + std::size_t{view_.column} * summaries.stride,
                        tiles * sizeof(float));
            block += tiles;
        }
    }

    const RowView& view_;
    Workspace& workspace_;
    std::size_t bytes_;
    std::size_t runs_ = 0;
    std::size_t tails_ = 0;
    std::uint32_t blocks_ = 0;
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
    std::uint64_t covered = 0;
    for (const Slice& slice : view.slices) {
        if (slice.first_id != covered) return false;
        if (slice.entries > 0 && slice.elements == nullptr) return false;
        covered += slice.entries;
    }
    return covered == view.vocab && covered > 0;
}

BlockedRow lay_in_blocks(const RowView& view, Workspace& workspace) noexcept {
    return BlockLayer(view, workspace).lay();
}

const BlockRun& BlockedRow::run_at(std::uint32_t position) const {
    return *std::find_if(runs.begin(), runs.end(), [position](const BlockRun& run) {
        return position - run.first_position < run.entries;
    });
}

float BlockedRow::value_in(const BlockRun& run, std::uint32_t entry) const {
    const std::size_t bytes = proto::element_bytes(dtype);
    std::uint32_t code = 0;
    std::memcpy(&code, run.elements + entry / kBlock * run.stride + entry % kBlock * bytes, bytes);
    return value_of_code(dtype, code);
}

float BlockedRow::value_at(std::uint32_t position) const {
    const BlockRun& run = run_at(position);
    return value_in(run, position - run.first_position);
}

}  // namespace croupier::sampler
