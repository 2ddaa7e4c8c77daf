// Where each part of a segment lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/decision.h"
#include "proto/geometry.h"
#include "proto/sampling.h"
#include "proto/schedule_slot.h"

namespace croupier::proto {

// What one element has in the build that made the segment. Structs that stand in rows may grow at their end
// within a major version; the others have bytes in reserve.
struct ElementBytes {
    std::uint64_t params = sizeof(SamplingParams);
    std::uint64_t column = sizeof(ScheduleColumn);
    std::uint64_t decision = sizeof(Decision);
    std::uint64_t ranked = sizeof(RankedLogprob);

    bool operator==(const ElementBytes&) const = default;
};
// Those of 17.0, for good: none has less.
constexpr ElementBytes kLeastElementBytes = {216, 32, 24, 12};
constexpr std::uint64_t kMostElementBytes = 4096;

// Where each region starts and how far apart its slots lie, in bytes. Made of the geometry by the daemon; a
// process that attaches refuses a header in which parts overlap or stand out of the file.
struct SegmentLayout {
    ElementBytes elements;
    // Where there is an order of blocks: the model's, then each rank's own blocks in it; and how many of them
    // belong to a hot set, [size][rank].
    std::uint64_t order = 0;
    std::uint64_t hot_blocks = 0;
    std::uint64_t sequences = 0;
    std::uint64_t sequence_stride = 0;
    std::uint64_t params_offset = 0;
    std::uint64_t feedback_offset = 0;
    std::uint64_t bias_offset = 0;
    std::uint64_t stops_offset = 0;
    std::uint64_t lists_offset = 0;
    std::uint64_t schedule = 0;
    std::uint64_t schedule_stride = 0;
    std::uint64_t columns_offset = 0;
    std::uint64_t decisions = 0;
    std::uint64_t decision_stride = 0;
    std::uint64_t claims_offset = 0;
    std::uint64_t crashes_offset = 0;
    std::uint64_t decision_offset = 0;
    std::uint64_t logprobs_offset = 0;
    std::uint64_t logprobs_stride = 0;  // of a column; 0: the session has none
    std::uint64_t randoms = 0;
    std::uint64_t random_stride = 0;
    std::uint64_t inputs = 0;  // by rank, a RowInput a column
    std::uint64_t input_stride = 0;
    std::uint64_t input_rank_stride = 0;
    std::uint64_t masks = 0;
    std::uint64_t mask_stride = 0;
    std::uint64_t mask_row_words = 0;
    std::uint64_t ready = 0;
    std::uint64_t ready_stride = 0;
    std::uint64_t logits = 0;
    std::uint64_t logits_stride = 0;
    // Within a slot: a rank's slice, and behind it the maxima of its tiles where the session has summaries.
    std::uint64_t rank_offset[kMaxTp] = {};
    std::uint64_t maxima_offset[kMaxTp] = {};
    std::uint64_t total_bytes = 0;
    // Of a column: a head, and its survivors; 0: the session has none. Not in the
    // slots of decisions, which each writer registers with its GPU for the tokens' sake.
    std::uint64_t support = 0;
    std::uint64_t support_slot_stride = 0;
    std::uint64_t support_stride = 0;
    // Of the transport lean: what ranks send of their steps, each rank on pages of its own, and what samplers
    // ask them for; else 0.
    std::uint64_t lean = 0;
    std::uint64_t lean_slot_stride = 0;
    std::uint64_t lean_rank_stride = 0;
    std::uint64_t requests = 0;
    std::uint64_t request_slot_stride = 0;
    std::uint64_t request_stride = 0;  // of a column; they stand behind the slot's board
    // Token logs, each on pages of its own, at the end of the file: they are the only part whose memory is
    // not allocated when the session opens, but as its sequences grow (SequenceEntry::log_room).
    std::uint64_t token_logs = 0;
    std::uint64_t token_log_stride = 0;
    // Where the session has a tokenizer: its TokenTable (text/token_table.h).
    std::uint64_t token_table = 0;
    std::uint64_t reserved[19] = {};  // 0: of regions that later minor versions have

    // What is allocated when the session opens.
    std::uint64_t bytes_at_open() const { return token_logs; }

    bool operator==(const SegmentLayout&) const = default;
};

SegmentLayout layout_of(const Geometry& geometry, const ElementBytes& elements = {});

// Empty when a segment of this geometry may be laid so, in a file of so many bytes; else a sentence that
// names the part. For a layout of another minor version: one of this build's own is what layout_of() says.
std::optional<std::string> layout_fault(const Geometry& geometry, const SegmentLayout& layout,
                                        std::uint64_t file_bytes);

}  // namespace croupier::proto
