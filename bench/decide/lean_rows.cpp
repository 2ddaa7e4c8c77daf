#include "bench/decide/lean_rows.h"

#include <algorithm>
#include <bit>

#include "proto/lean_part.h"

namespace croupier::bench {
namespace {

proto::Geometry geometry_of(const measurement::LaidRows& rows) {
    proto::Geometry geometry;
    geometry.vocab = rows.vocab();
    geometry.max_batch = rows.count();
    geometry.lean_blocks = proto::kUsualLeanBlocks;
    proto::fill_even_shards(geometry);
    return geometry;
}

}  // namespace

LeanRows::LeanRows(const measurement::BenchRows& by_id, const measurement::LaidRows& rows)
    : by_id_(by_id),
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
    const void* values = by_id_.row(row);
    gpu_writer::lay_lean(alone, {&sent, 1}, {&values, 1}, {part_.data(), nullptr});
}

void LeanRows::forget_granted(const gpu_writer::LeanWant& want) {
    const bool whole = want.flags.has(gpu_writer::Want::whole);
    std::fill(placed_.begin(), placed_.end(), whole ? ~std::uint64_t{0} : 0);
}

const proto::LeanHead& LeanRows::head(std::uint32_t row) const {
    return reinterpret_cast<const proto::LeanHead*>(part_.data() + shape_.layout.heads)[row];
}

sampler::RowView LeanRows::view(std::uint32_t row) {
    const proto::LeanLayout& layout = shape_.layout;
    const proto::LeanHead& sent = head(row);
    lean_.masked = sent.flags.has(proto::Sent::under_mask);
    lean_.holds_nothing = sent.flags.has(proto::Sent::nothing);
    lean_.maxima = part_.data() + layout.maxima + row * layout.maxima_stride;
    lean_.blocks =
        reinterpret_cast<const std::uint16_t*>(part_.data() + layout.blocks + row * layout.blocks_stride);
    lean_.elements = part_.data() + layout.elements + row * layout.elements_stride;
    lean_.sent = sent.sent;
    lean_.placed = placed_.data();
    lean_.weight = sent.weight;
    lean_.weight_at_scale = sent.weight_at_scale;
    lean_.scale = sent.scale;
    const bool weighed = sent.flags.has(proto::Sent::weighed_blocks);
    const std::byte* weights = part_.data() + layout.block_weights(row, shape_.slice.blocks);
    lean_.block_weights = weighed ? reinterpret_cast<const std::uint8_t*>(weights) : nullptr;
    lean_.spread.reset();
    if (sent.flags.has(proto::Sent::row_spread))
        lean_.spread = reinterpret_cast<const proto::LeanSpread*>(part_.data() + layout.spread(row))->of;
    lean_.racers.reset();
    if (sent.flags.has(proto::Sent::race_best)) {
        const std::size_t at = layout.racers(row, sent.flags, shape_.slice.blocks);
        lean_.racers = *reinterpret_cast<const proto::Racers*>(part_.data() + at);
    }
    lean_.draw.reset();
    if (sent.flags.has_any(proto::Sent::draw_alone | proto::Sent::draw_beside)) lean_.draw = sent.draw;
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
