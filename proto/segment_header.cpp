#include "proto/segment_header.h"

#include <cstddef>

#include "proto/checksum.h"
#include "proto/decision_slot.h"
#include "proto/logits_slot.h"
#include "proto/schedule_slot.h"
#include "proto/sequence_entry.h"

namespace croupier::proto {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Hands out consecutive regions.
class Cursor {
  public:
    explicit Cursor(std::uint64_t start) : at_(start) {}
    std::uint64_t take(std::uint64_t bytes, std::uint64_t alignment) {
        const std::uint64_t start = round_up(at_, alignment);
        at_ = start + bytes;
        return start;
    }
    std::uint64_t end(std::uint64_t alignment) const { return round_up(at_, alignment); }

  private:
    std::uint64_t at_;
};

void lay_sequence_table(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    Cursor entry(sizeof(SequenceEntry));
    layout.bias_offset = entry.take(std::uint64_t{g.max_bias} * sizeof(TokenBias), kLine);
    layout.stops_offset = entry.take(std::uint64_t{g.max_stop_ids} * sizeof(std::int32_t), kLine);
    layout.lists_offset = entry.take(std::uint64_t{g.max_list_tokens} * sizeof(std::int32_t), kLine);
    layout.log_offset = entry.take(std::uint64_t{g.max_length} * sizeof(std::int32_t), kLine);
    layout.sequence_stride = entry.end(kLine);
    layout.sequences = segment.take(layout.sequence_stride * g.max_sequences, kPage);
}

void lay_decision_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    Cursor slot(sizeof(DecisionSlotHead));
    slot.take(bitmap_words(g.max_batch) * sizeof(std::uint64_t), kLine);
    layout.claims_offset = slot.take(std::uint64_t{g.max_batch} * sizeof(std::uint64_t), kLine);
    layout.crashes_offset = slot.take(std::uint64_t{g.max_batch} * sizeof(std::uint32_t), kLine);
    layout.decision_offset = slot.take(std::uint64_t{g.max_batch} * sizeof(Decision), kLine);
    // The drawn token's own, and the best.
    const std::uint64_t ranked = g.max_logprobs == 0 ? 0 : std::uint64_t{g.max_logprobs} + 1;
    layout.logprobs_stride = round_up(ranked * sizeof(RankedLogprob), kLine);
    layout.logprobs_offset = slot.take(layout.logprobs_stride * g.max_batch, kLine);
    layout.decision_stride = slot.end(kLine);
    layout.decisions = segment.take(layout.decision_stride * g.slots, kPage);
}

void lay_logits_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    layout.ready_stride = std::uint64_t{g.tp} * sizeof(ReadyCell);
    layout.ready = segment.take(layout.ready_stride * g.slots, kPage);
    Cursor slot(0);
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        const std::uint64_t tiles = std::uint64_t{g.tiles(rank)} * g.max_batch;
        // Pages of one rank only: each worker registers its own part with its own device.
        layout.rank_offset[rank] = slot.take(tiles * g.tile * element_bytes(g.dtype), kPage);
        const std::uint64_t maxima = std::uint64_t{g.maxima_stride(rank)} * g.max_batch;
        layout.maxima_offset[rank] = slot.take(g.has_summaries != 0 ? maxima * sizeof(float) : 0, kPage);
    }
    layout.logits_stride = slot.end(kPage);
    layout.logits = segment.take(layout.logits_stride * g.slots, kPage);
}

}  // namespace

SegmentLayout layout_of(const Geometry& g) {
    SegmentLayout layout;
    Cursor segment(kHeaderBytes);
    std::uint64_t order_words = g.blocks();
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) order_words += g.shards[rank].blocks();
    layout.order = segment.take(g.has_order != 0 ? order_words * sizeof(std::uint32_t) : 0, kPage);
    const std::uint64_t hot_words = g.has_order != 0 ? kHotSizes.size() * std::uint64_t{g.tp} : 0;
    layout.hot_blocks = segment.take(hot_words * sizeof(std::uint32_t), kLine);
    lay_sequence_table(g, layout, segment);
    layout.schedule_stride =
        round_up(sizeof(ScheduleRecord) + std::uint64_t{g.max_batch} * sizeof(ScheduleColumn), kLine);
    layout.schedule = segment.take(layout.schedule_stride * g.slots, kPage);
    lay_decision_ring(g, layout, segment);
    layout.random_stride = kLine + round_up(std::uint64_t{g.max_batch} * sizeof(ColumnRandoms), kLine);
    layout.randoms = segment.take(layout.random_stride * g.slots, kPage);
    layout.mask_row_words = round_up((std::uint64_t{g.vocab} + 31) / 32, kLine / sizeof(std::uint32_t));
    layout.mask_stride = layout.mask_row_words * sizeof(std::uint32_t) * g.mask_rows;
    layout.masks = segment.take(layout.mask_stride * g.slots, kPage);
    lay_logits_ring(g, layout, segment);
    layout.total_bytes = segment.end(kPage);
    return layout;
}

std::uint64_t header_checksum(const SegmentHeader& header) {
    Checksum checksum;
    checksum.add(&header, offsetof(SegmentHeader, checksum));
    return checksum.value();
}

}  // namespace croupier::proto
