#include "proto/segment_layout.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/decision_slot.h"
#include "proto/hot_set.h"
#include "proto/lean_part.h"
#include "proto/logits_slot.h"
#include "proto/request_cell.h"
#include "proto/segment_header.h"
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

// The model's blocks, then each rank's own.
std::uint64_t order_words(const Geometry& g) {
    if (g.has_order == 0) return 0;
    std::uint64_t words = g.blocks();
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) words += g.shards[rank].blocks();
    return words;
}

void lay_sequence_table(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    Cursor entry(sizeof(SequenceEntry));
    layout.params_offset = entry.take(layout.elements.params, kLine);
    layout.feedback_offset = entry.take(sizeof(KeptFeedback), kLine);
    layout.bias_offset = entry.take(std::uint64_t{g.max_bias} * sizeof(TokenBias), kLine);
    layout.stops_offset = entry.take(std::uint64_t{g.max_stop_ids} * sizeof(std::int32_t), kLine);
    layout.lists_offset = entry.take(std::uint64_t{g.max_list_tokens} * sizeof(std::int32_t), kLine);
    layout.sequence_stride = entry.end(kLine);
    layout.sequences = segment.take(layout.sequence_stride * g.max_sequences, kPage);
}

void lay_decision_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    Cursor slot(sizeof(DecisionSlotHead));
    slot.take(bitmap_words(g.max_batch) * sizeof(std::uint64_t), kLine);
    layout.claims_offset = slot.take(std::uint64_t{g.max_batch} * sizeof(std::uint64_t), kLine);
    layout.crashes_offset = slot.take(std::uint64_t{g.max_batch} * sizeof(std::uint32_t), kLine);
    layout.decision_offset = slot.take(std::uint64_t{g.max_batch} * layout.elements.decision, kLine);
    // The drawn token's own, and the best.
    const std::uint64_t ranked = g.max_logprobs == 0 ? 0 : std::uint64_t{g.max_logprobs} + 1;
    layout.logprobs_stride = round_up(ranked * layout.elements.ranked, kLine);
    layout.logprobs_offset = slot.take(layout.logprobs_stride * g.max_batch, kLine);
    layout.decision_stride = slot.end(kLine);
    layout.decisions = segment.take(layout.decision_stride * g.slots, kPage);
}

void lay_support_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    const std::uint64_t survivors = g.max_support == 0 ? 0 : std::uint64_t{g.max_support} + 1;
    layout.support_stride = round_up(survivors * sizeof(Survivor), kLine);
    layout.support_slot_stride = layout.support_stride * g.max_batch;
    layout.support = segment.take(layout.support_slot_stride * g.slots, kPage);
}

std::uint64_t lean_rank_bytes(const Geometry& g) {
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < g.tp; ++rank)
        most = std::max<std::uint64_t>(most, lean_layout_of(g, rank).bytes);
    return most;
}

void lay_lean_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    if (!g.is_lean()) return;
    layout.lean_rank_stride = round_up(lean_rank_bytes(g), kPage);
    layout.lean_slot_stride = layout.lean_rank_stride * g.tp;
    layout.lean = segment.take(layout.lean_slot_stride * g.slots, kPage);
    layout.request_stride = request_layout_of(g).stride;
    layout.request_slot_stride = sizeof(RequestBoard) + layout.request_stride * g.max_batch;
    layout.requests = segment.take(layout.request_slot_stride * g.slots, kPage);
}

void lay_logits_ring(const Geometry& g, SegmentLayout& layout, Cursor& segment) {
    layout.ready_stride = std::uint64_t{g.tp} * sizeof(ReadyCell);
    layout.ready = segment.take(layout.ready_stride * g.slots, kPage);
    Cursor slot(0);
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        const std::uint64_t tiles = std::uint64_t{g.tiles(rank)} * g.row_places(g.max_batch);
        // Pages of one rank only: each worker registers its own part with its own device.
        layout.rank_offset[rank] = slot.take(tiles * g.tile * element_bytes(g.dtype), kPage);
        const std::uint64_t maxima = std::uint64_t{g.maxima_stride(rank)} * g.max_batch;
        layout.maxima_offset[rank] = slot.take(g.has_summaries != 0 ? maxima * sizeof(float) : 0, kPage);
    }
    layout.logits_stride = slot.end(kPage);
    layout.logits = segment.take(layout.logits_stride * g.slots, kPage);
}

}  // namespace

SegmentLayout layout_of(const Geometry& g, const ElementBytes& elements) {
    SegmentLayout layout;
    layout.elements = elements;
    Cursor segment(kHeaderBytes);
    layout.order = segment.take(order_words(g) * sizeof(std::uint32_t), kPage);
    const std::uint64_t hot_words = g.has_order != 0 ? kHotSizes.size() * std::uint64_t{g.tp} : 0;
    layout.hot_blocks = segment.take(hot_words * sizeof(std::uint32_t), kLine);
    lay_sequence_table(g, layout, segment);
    layout.columns_offset = sizeof(ScheduleRecord);
    layout.schedule_stride =
        round_up(layout.columns_offset + std::uint64_t{g.max_batch} * elements.column, kLine);
    layout.schedule = segment.take(layout.schedule_stride * g.slots, kPage);
    lay_decision_ring(g, layout, segment);
    layout.random_stride = kLine + round_up(std::uint64_t{g.max_batch} * sizeof(ColumnRandoms), kLine);
    layout.randoms = segment.take(layout.random_stride * g.slots, kPage);
    layout.mask_row_words = round_up((std::uint64_t{g.vocab} + 31) / 32, kLine / sizeof(std::uint32_t));
    layout.mask_stride = layout.mask_row_words * sizeof(std::uint32_t) * g.mask_rows;
    layout.masks = segment.take(layout.mask_stride * g.slots, kPage);
    lay_logits_ring(g, layout, segment);
    lay_support_ring(g, layout, segment);
    lay_lean_ring(g, layout, segment);
    layout.input_rank_stride = round_up(std::uint64_t{g.max_batch} * sizeof(std::uint64_t), kLine);
    layout.input_stride = layout.input_rank_stride * g.tp;
    layout.inputs = segment.take(layout.input_stride * g.slots, kPage);
    layout.token_table = segment.take(g.token_table_bytes, kPage);
    layout.token_log_stride = round_up(std::uint64_t{g.max_length} * sizeof(std::int32_t), kPage);
    layout.token_logs = segment.take(layout.token_log_stride * g.max_sequences, kPage);
    layout.total_bytes = segment.end(kPage);
    return layout;
}

namespace {

struct Part {
    const char* name;
    std::uint64_t first;
    std::uint64_t stride;
    std::uint64_t count;
    std::uint64_t alignment = kLine;
};

// Whether the parts lie in `room` bytes one beside the other. Numbers are another process's: none may
// overflow.
std::optional<std::string> parts_fault(std::vector<Part> parts, std::uint64_t room, const char* whole) {
    const auto where = [&](const Part& part) { return std::string(part.name) + " of " + whole; };
    const auto stands_out = [&](const Part& part) {
        return where(part) + " stand out of its " + std::to_string(room) + " bytes";
    };
    // The address of an empty part is computed too.
    for (const Part& part : parts)
        if (part.first > room) return stands_out(part);
    std::erase_if(parts, [](const Part& part) { return part.count == 0 || part.stride == 0; });
    for (const Part& part : parts) {
        if (part.first % part.alignment != 0)
            return where(part) + " do not begin at a multiple of " + std::to_string(part.alignment);
        if (part.stride > (room - part.first) / part.count) return stands_out(part);
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.first < b.first; });
    std::uint64_t end = 0;
    for (const Part& part : parts) {
        if (part.first < end) return where(part) + " overlap what stands before them";
        end = part.first + part.stride * part.count;
    }
    return std::nullopt;
}

std::optional<std::string> elements_fault(const ElementBytes& elements) {
    const auto fault = [](const char* name, std::uint64_t bytes, std::uint64_t least,
                          std::uint64_t alignment) -> std::optional<std::string> {
        if (bytes >= least && bytes <= kMostElementBytes && bytes % alignment == 0) return std::nullopt;
        return std::string("one element of the ") + name + " has " + std::to_string(bytes) +
               " bytes, allowed is " + std::to_string(least) + " to " + std::to_string(kMostElementBytes) +
               ", a multiple of " + std::to_string(alignment);
    };
    const ElementBytes& least = kLeastElementBytes;
    if (auto found = fault("parameters", elements.params, least.params, alignof(SamplingParams)))
        return found;
    if (auto found = fault("columns", elements.column, least.column, alignof(ScheduleColumn))) return found;
    if (auto found = fault("decisions", elements.decision, least.decision, alignof(Decision))) return found;
    return fault("log-probs", elements.ranked, least.ranked, alignof(RankedLogprob));
}

std::optional<std::string> regions_fault(const Geometry& g, const SegmentLayout& l) {
    for (const std::uint64_t stride :
         {l.sequence_stride, l.schedule_stride, l.decision_stride, l.random_stride, l.input_stride,
          l.mask_stride, l.ready_stride, l.logits_stride}) {
        if (stride % kLine != 0)
            return "slots of " + std::to_string(stride) + " bytes are not whole cache lines";
    }
    const std::uint64_t hot_words = g.has_order != 0 ? kHotSizes.size() * std::uint64_t{g.tp} : 0;
    return parts_fault(
        {{"the header", 0, kHeaderBytes, 1},
         {"the order's blocks", l.order, order_words(g) * sizeof(std::uint32_t), 1, kPage},
         {"the hot blocks", l.hot_blocks, hot_words * sizeof(std::uint32_t), 1},
         {"the sequences", l.sequences, l.sequence_stride, g.max_sequences, kPage},
         {"the schedule's slots", l.schedule, l.schedule_stride, g.slots, kPage},
         {"the decisions' slots", l.decisions, l.decision_stride, g.slots, kPage},
         {"the randoms' slots", l.randoms, l.random_stride, g.slots, kPage},
         {"the inputs' slots", l.inputs, l.input_stride, g.slots, kPage},
         {"the masks' slots", l.masks, l.mask_stride, g.mask_rows == 0 ? 0 : g.slots, kPage},
         {"the ready words' slots", l.ready, l.ready_stride, g.slots, kPage},
         {"the logits' slots", l.logits, l.logits_stride, g.slots, kPage},
         {"the supports' slots", l.support, l.support_slot_stride, g.max_support == 0 ? 0 : g.slots, kPage},
         {"the lean parts' slots", l.lean, l.lean_slot_stride, !g.is_lean() ? 0 : g.slots, kPage},
         {"the block requests' slots", l.requests, l.request_slot_stride, !g.is_lean() ? 0 : g.slots, kPage},
         {"the tokens' bytes", l.token_table, g.token_table_bytes, 1, kPage},
         {"the token logs", l.token_logs, l.token_log_stride, g.max_sequences, kPage}},
        l.total_bytes, "the segment");
}

// What stands behind them would not be allocated.
std::optional<std::string> token_logs_fault(const Geometry& g, const SegmentLayout& l) {
    if (l.token_log_stride % kPage != 0 ||
        l.token_log_stride / sizeof(std::int32_t) < std::uint64_t{g.max_length})
        return "a token log has " + std::to_string(l.token_log_stride) + " bytes for " +
               std::to_string(g.max_length) + " tokens";
    if (l.token_logs + l.token_log_stride * g.max_sequences != l.total_bytes)
        return "the token logs are not the last part of the segment";
    return std::nullopt;
}

std::optional<std::string> sequence_fault(const Geometry& g, const SegmentLayout& l) {
    return parts_fault({{"the entry", 0, sizeof(SequenceEntry), 1},
                        {"the parameters", l.params_offset, l.elements.params, 1},
                        {"the feedbacks", l.feedback_offset, sizeof(KeptFeedback), 1},
                        {"the biases", l.bias_offset, sizeof(TokenBias), g.max_bias},
                        {"the stop ids", l.stops_offset, sizeof(std::int32_t), g.max_stop_ids},
                        {"the lists", l.lists_offset, sizeof(std::int32_t), g.max_list_tokens}},
                       l.sequence_stride, "a sequence");
}

std::optional<std::string> decision_slot_fault(const Geometry& g, const SegmentLayout& l) {
    const std::uint64_t ranked = g.max_logprobs == 0 ? 0 : std::uint64_t{g.max_logprobs} + 1;
    if (l.logprobs_stride < ranked * l.elements.ranked)
        return "the log-probs of a column overlap the next one's";
    return parts_fault(
        {{"the head", 0, sizeof(DecisionSlotHead), 1},
         {"the bits", sizeof(DecisionSlotHead), sizeof(std::uint64_t), bitmap_words(g.max_batch)},
         {"the claims", l.claims_offset, sizeof(std::uint64_t), g.max_batch},
         {"the crash counts", l.crashes_offset, sizeof(std::uint32_t), g.max_batch},
         {"the decisions", l.decision_offset, l.elements.decision, g.max_batch},
         {"the log-probs", l.logprobs_offset, l.logprobs_stride, ranked == 0 ? 0 : g.max_batch}},
        l.decision_stride, "a slot of decisions");
}

std::optional<std::string> logits_slot_fault(const Geometry& g, const SegmentLayout& l) {
    std::vector<Part> parts;
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        const std::uint64_t tile_bytes = std::uint64_t{g.tile} * element_bytes(g.dtype);
        // A writer registers what lies between its slice and the next rank's.
        if (rank > 0 && l.rank_offset[rank] < l.rank_offset[rank - 1])
            return "the slice of rank " + std::to_string(rank) + " stands before that of the rank before it";
        parts.push_back({"the slices", l.rank_offset[rank], tile_bytes,
                         std::uint64_t{g.tiles(rank)} * g.row_places(g.max_batch), kPage});
        const std::uint64_t maxima = std::uint64_t{g.maxima_stride(rank)} * g.max_batch;
        parts.push_back(
            {"the maxima", l.maxima_offset[rank], sizeof(float), g.has_summaries != 0 ? maxima : 0});
    }
    return parts_fault(std::move(parts), l.logits_stride, "a slot of logits");
}

std::optional<std::string> support_fault(const Geometry& g, const SegmentLayout& l) {
    if (g.max_support == 0) return std::nullopt;
    const std::uint64_t column = (std::uint64_t{g.max_support} + 1) * sizeof(Survivor);
    if (l.support_stride < column || l.support_stride % kLine != 0)
        return "the support of a column has " + std::to_string(l.support_stride) + " bytes";
    return parts_fault({{"the columns", 0, l.support_stride, g.max_batch}}, l.support_slot_stride,
                       "a slot of supports");
}

std::optional<std::string> lean_fault(const Geometry& g, const SegmentLayout& l) {
    if (!g.is_lean()) return std::nullopt;
    // What stands within them is each build's own to compute: it may not be smaller there.
    if (l.lean_rank_stride < lean_rank_bytes(g) || l.lean_rank_stride % kPage != 0)
        return "the lean part of a rank has " + std::to_string(l.lean_rank_stride) + " bytes";
    if (l.request_stride < request_layout_of(g).stride || l.request_stride % kLine != 0)
        return "the block request of a column has " + std::to_string(l.request_stride) + " bytes";
    if (auto fault = parts_fault({{"the ranks", 0, l.lean_rank_stride, g.tp, kPage}}, l.lean_slot_stride,
                                 "a slot of lean parts"))
        return fault;
    return parts_fault({{"the board", 0, sizeof(RequestBoard), 1},
                        {"the cells", sizeof(RequestBoard), l.request_stride, g.max_batch}},
                       l.request_slot_stride, "a slot of block requests");
}

std::optional<std::string> other_slots_fault(const Geometry& g, const SegmentLayout& l) {
    const std::uint64_t mask_words = (std::uint64_t{g.vocab} + 31) / 32;
    if (auto fault = parts_fault({{"the record", 0, sizeof(ScheduleRecord), 1},
                                  {"the columns", l.columns_offset, l.elements.column, g.max_batch}},
                                 l.schedule_stride, "a slot of the schedule"))
        return fault;
    if (auto fault = parts_fault(
            {{"the ready word", 0, kLine, 1}, {"the numbers", kLine, sizeof(ColumnRandoms), g.max_batch}},
            l.random_stride, "a slot of randoms"))
        return fault;
    if (l.input_rank_stride % kLine != 0 ||
        l.input_rank_stride / sizeof(std::uint64_t) < std::uint64_t{g.max_batch})
        return "the inputs of a rank have " + std::to_string(l.input_rank_stride) + " bytes";
    if (auto fault =
            parts_fault({{"the ranks", 0, l.input_rank_stride, g.tp}}, l.input_stride, "a slot of inputs"))
        return fault;
    if (auto fault = parts_fault({{"the ready words", 0, sizeof(ReadyCell), g.tp}}, l.ready_stride,
                                 "a slot of ready words"))
        return fault;
    if (g.mask_rows == 0) return std::nullopt;
    const bool rows_fit =
        l.mask_row_words >= mask_words && l.mask_row_words <= l.mask_stride / sizeof(std::uint32_t);
    if (!rows_fit) return "a row of the masks has " + std::to_string(l.mask_row_words) + " words";
    return parts_fault({{"the rows", 0, l.mask_row_words * sizeof(std::uint32_t), g.mask_rows}},
                       l.mask_stride, "a slot of masks");
}

}  // namespace

std::optional<std::string> layout_fault(const Geometry& g, const SegmentLayout& l, std::uint64_t file_bytes) {
    if (l.total_bytes != file_bytes) {
        return "its layout needs " + std::to_string(l.total_bytes) + " bytes, the file has " +
               std::to_string(file_bytes);
    }
    if (auto fault = elements_fault(l.elements)) return fault;
    if (auto fault = regions_fault(g, l)) return fault;
    if (auto fault = token_logs_fault(g, l)) return fault;
    if (auto fault = sequence_fault(g, l)) return fault;
    if (auto fault = decision_slot_fault(g, l)) return fault;
    if (auto fault = logits_slot_fault(g, l)) return fault;
    if (auto fault = support_fault(g, l)) return fault;
    if (auto fault = lean_fault(g, l)) return fault;
    return other_slots_fault(g, l);
}

}  // namespace croupier::proto
