#include "bench/decide/lean_rows.h"

#include <algorithm>
#include <bit>

#include "proto/lean_part.h"
#include "sampler/lean_row.h"

namespace croupier::bench {
namespace {

proto::Geometry geometry_of(const measurement::LaidRows& rows) {
    proto::Geometry geometry;
    geometry.vocab = rows.vocab();
    geometry.dtype = rows.dtype();
    geometry.max_batch = rows.count();
    geometry.lean_blocks = proto::kUsualLeanBlocks;
    proto::fill_even_shards(geometry);
    return geometry;
}

}  // namespace

LeanRows::LeanRows(const measurement::LaidRows& in_memory, const measurement::LaidRows& rows)
    : in_memory_(in_memory),
      rows_(rows),
      geometry_(geometry_of(rows)),
      shape_(gpu_writer::lean_shape(geometry_, 0, rows.count())),
      part_(shape_.layout.bytes),
      placed_((geometry_.blocks() + 63) / 64) {}

void LeanRows::lay(std::uint32_t row, const gpu_writer::LeanWant& want, const gpu_writer::StepMasks& masks,
                   const gpu_writer::StepNames& names) {
    gpu_writer::LeanShape alone = shape_;
    alone.masks = masks;
    alone.names = names;
    // Its column is the first one of what is laid there.
    alone.layout.heads += row * sizeof(proto::LeanHead);
    alone.layout.maxima += row * shape_.layout.maxima_stride;
    alone.layout.blocks += row * shape_.layout.blocks_stride;
    alone.layout.elements += row * shape_.layout.elements_stride;
    gpu_writer::LeanWant sent = want;
    sent.flags.remove(gpu_writer::Want::whole);
    const void* values = in_memory_.bytes(row);
    gpu_writer::lay_lean(alone, {&sent, 1}, {&values, 1}, {part_.data(), nullptr});
}

void LeanRows::forget_granted(const gpu_writer::LeanWant& want) {
    const bool whole = want.flags.has(gpu_writer::Want::whole);
    std::fill(placed_.begin(), placed_.end(), whole ? ~std::uint64_t{0} : 0);
}

std::size_t LeanRows::block_bytes() const {
    return std::size_t{proto::kBlockIds} * proto::element_bytes(geometry_.dtype);
}

std::size_t LeanRows::bytes_sent(std::uint32_t row, const gpu_writer::LeanWant& want) const {
    const std::size_t blocks = want.flags.has(gpu_writer::Want::whole) ? shape_.slice.blocks : sent(row);
    const std::size_t maxima = shape_.slice.blocks * std::size_t{proto::element_bytes(geometry_.dtype)};
    const auto lean =
        sampler::lean_column_of(head(row), part_.data(), shape_.layout, shape_.slice.blocks, row);
    const std::size_t named = lean.named == 0 ? 0 : shape_.layout.bytes_of_named(lean.named);
    return sizeof(proto::LeanHead) + maxima + blocks * block_bytes() + sent(row) * sizeof(std::uint16_t) +
           named + lean.best_entries.size_bytes();
}

const proto::LeanHead& LeanRows::head(std::uint32_t row) const {
    return reinterpret_cast<const proto::LeanHead*>(part_.data() + shape_.layout.heads)[row];
}

sampler::RowView LeanRows::view(std::uint32_t row) {
    lean_ = sampler::lean_column_of(head(row), part_.data(), shape_.layout, shape_.slice.blocks, row);
    lean_.placed = placed_.data();
    sampler::RowView view = rows_.view(row, false);
    slice_ = view.slices.front();
    slice_.lean = &lean_;
    view.slices = {&slice_, 1};
    return view;
}

std::uint32_t LeanRows::grant(std::span<const std::uint64_t> missing) {
    std::uint32_t blocks = 0;
    for (std::size_t i = 0; i < missing.size(); ++i) {
        blocks += static_cast<std::uint32_t>(std::popcount(missing[i]));
        placed_[i] |= missing[i];
    }
    return blocks;
}

}  // namespace croupier::bench
