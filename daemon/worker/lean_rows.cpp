#include "daemon/worker/lean_rows.h"

#include <algorithm>

#include "sampler/lean_row.h"
#include "shm/block_requests.h"

namespace croupier::daemon {

LeanRows::LeanRows(const proto::Geometry& geometry, std::uint32_t threads)
    : lean_blocks_(geometry.lean_blocks) {
    if (lean_blocks_ == 0) return;
    std::size_t copied = 0;
    for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
        layouts_.push_back(proto::lean_layout_of(geometry, rank));
        blocks_.push_back(geometry.shards[rank].blocks());
        const proto::LeanLayout& layout = layouts_.back();
        copied += layout.maxima_stride + layout.blocks_stride + layout.elements_stride +
                  proto::block_weights_bytes(blocks_.back());
    }
    copied_bytes_.resize(copied);
    all_ = shm::all_bits(geometry.blocks());
    laid_.resize(threads);
    for (Laid& laid : laid_) laid.lean.resize(geometry.tp);
}

std::span<const sampler::Slice> LeanRows::lay(const shm::Segment& segment, const CheckedStep& step,
                                              std::uint32_t column, std::size_t thread,
                                              std::span<const sampler::Slice> slices) {
    const shm::BlockRequests requests(segment, step.step, shm::writer_epochs(segment));
    const auto placed = requests.placed(column);
    Laid& laid = laid_[thread];
    laid.slices.assign(slices.begin(), slices.end());
    for (std::uint32_t rank = 0; rank < laid.slices.size(); ++rank) {
        laid.lean[rank] = column_of(segment.lean(step.slot, rank), rank, column, placed);
        laid.slices[rank].lean = &laid.lean[rank];
    }
    return laid.slices;
}

std::span<const sampler::Slice> LeanRows::copy(const shm::Segment& segment, const CheckedStep& step,
                                               std::uint32_t column, const proto::race::Draw& drawn_by,
                                               std::span<const sampler::Slice> slices) {
    copied_.slices.assign(slices.begin(), slices.end());
    copied_.lean.resize(slices.size());
    std::byte* to = copied_bytes_.data();
    const auto keep = [&to](const void* from, std::size_t bytes) {
        std::byte* const kept = to;
        to = std::copy_n(static_cast<const std::byte*>(from), bytes, to);
        return kept;
    };
    for (std::uint32_t rank = 0; rank < slices.size(); ++rank) {
        const proto::LeanLayout& layout = layouts_[rank];
        sampler::LeanColumn lean = column_of(segment.lean(step.slot, rank), rank, column, {});
        // What is told under a mask is not of the row that a request without one would see.
        if (lean.placed != nullptr || lean.masked) return {};
        lean.maxima = keep(lean.maxima, layout.maxima_stride);
        lean.blocks = reinterpret_cast<const std::uint16_t*>(keep(lean.blocks, layout.blocks_stride));
        if (lean.block_weights != nullptr) {
            lean.block_weights = reinterpret_cast<const std::uint8_t*>(
                keep(lean.block_weights, proto::block_weights_bytes(blocks_[rank])));
        }
        lean.elements = keep(lean.elements, lean.sent * layout.block_bytes);
        lean.named_values = nullptr;  // another request's
        lean.best_entries = {reinterpret_cast<const proto::BestEntry*>(
                                 keep(lean.best_entries.data(), lean.best_entries.size_bytes())),
                             lean.best_entries.size()};
        if (lean.draw) {
            lean.draw->key = drawn_by.key;
            lean.draw->temperature = drawn_by.temperature;
        }
        copied_.lean[rank] = lean;
        copied_.slices[rank].lean = &copied_.lean[rank];
    }
    return copied_.slices;
}

void LeanRows::prefetch_head(const shm::Segment& segment, const CheckedStep& step,
                             std::uint32_t column) const {
    for (std::uint32_t rank = 0; rank < layouts_.size(); ++rank) {
        __builtin_prefetch(&head_at(segment.lean(step.slot, rank), rank, column));
    }
}

void LeanRows::prefetch(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) const {
    constexpr std::size_t kLine = 64;
    constexpr std::size_t kLikeliest = 4096;  // bytes of elements
    constexpr std::size_t kListed = 1024;     // of a list
    const auto fetch = [](const std::byte* from, std::size_t bytes) {
        for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
    };
    for (std::uint32_t rank = 0; rank < layouts_.size(); ++rank) {
        const proto::LeanLayout& layout = layouts_[rank];
        const std::byte* part = segment.lean(step.slot, rank);
        const proto::LeanHead& head = head_at(part, rank, column);
        if (head.flags.has(proto::Sent::draw_alone)) continue;
        if (head.flags.has(proto::Sent::row_spread))
            fetch(part + layout.spread(column), sizeof(proto::LeanSpread));
        if (layout.has_racers(head.flags, blocks_[rank]))
            fetch(part + layout.racers(column, head.flags, blocks_[rank]), sizeof(proto::Racers));
        if (layout.has_block_weights(head.flags, blocks_[rank]))
            fetch(part + layout.block_weights(column, blocks_[rank]), blocks_[rank]);
        fetch(part + layout.maxima + column * layout.maxima_stride, layout.maxima_stride);
        const std::size_t sent = std::min(head.sent, lean_blocks_);
        fetch(part + layout.blocks + column * layout.blocks_stride, sent * sizeof(std::uint16_t));
        fetch(part + layout.elements + column * layout.elements_stride,
              std::min(sent * layout.block_bytes, kLikeliest / layouts_.size()));
        // How many there are is not near yet.
        if (head.flags.has(proto::Sent::best_entries))
            fetch(part + layout.best_entries(column, sent * layout.block_bytes), kListed / layouts_.size());
    }
}

sampler::LeanColumn LeanRows::column_of(const std::byte* part, std::uint32_t rank, std::uint32_t column,
                                        std::span<const std::uint64_t> placed) const {
    // A copy: it is another process's.
    proto::LeanHead head = head_at(part, rank, column);
    head.sent = std::min(head.sent, lean_blocks_);
    sampler::LeanColumn lean = sampler::lean_column_of(head, part, layouts_[rank], blocks_[rank], column);
    lean.placed = head.flags.has(proto::Sent::whole_row) ? all_.data() : placed.data();
    return lean;
}

}  // namespace croupier::daemon
