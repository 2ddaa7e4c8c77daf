// One column of a step, where the ranks wrote it: nothing is copied to make one of these.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "proto/dtype.h"
#include "proto/lean_part.h"
#include "proto/race.h"
#include "proto/racers.h"
#include "proto/row_spread.h"

namespace croupier::sampler {

constexpr std::uint32_t kMaxSlices = 64;

// What the writer says of each tile of a slice: [columns][stride]. It is believed as the logits are: a tile
// with a NaN must have a NaN for its maximum.
struct TileSummaries {
    const float* maxima = nullptr;  // null: there are none
    std::uint32_t stride = 0;       // at least as many as there are tiles
};

// What a slice's writer sent of the view's one column, where it keeps the row itself. Blocks are counted from
// the slice's first one, in the order of their ids. The maxima are believed as a row is.
struct LeanColumn {
    const void* maxima = nullptr;  // a code of each block: its largest entry, NaN where one is
    // Of the maxima, the sums, and what each block weighs: they are of what the request's mask allows, beside
    // which a NaN or +inf counts wherever it stands. The elements are as they stand.
    bool masked = false;
    bool holds_nothing = false;  // no entry of the rank's is above -inf, as the maxima have it
    const std::uint16_t* blocks = nullptr;
    const void* elements = nullptr;  // [sent][64]
    std::uint32_t sent = 0;
    // A bit for each block of the row (not of the slice) that was asked for and stands at its place by now;
    // null: none was. Of a block that ranks share, each rank's part.
    const std::uint64_t* placed = nullptr;
    // What the rank's entries above -inf weigh, each exp(x) and each exp(x * scale), in units of the largest
    // one's weight, off by kSentWeightError of themselves at most (sampler/row_mass.h); 0: not summed.
    double weight = 0.0;
    double weight_at_scale = 0.0;
    double scale = 0.0;
    // Of each block at least, each exp(x * scale), in units of its largest entry's weight
    // (proto::Sent::weighed_blocks); null: it is not known. Believed as the maxima are.
    const std::uint8_t* block_weights = nullptr;
    // Of the rank's entries, at `scale`; its float sums are off by kMomentError and kWeightError of
    // themselves at most (sampler/row_sums.h). Of a rank with NaN or +inf it has no tokens.
    std::optional<proto::RowSpread> spread;
    // The winner among the rank's ids as the entries stand, and an upper bound of the others' scores,
    // believed as the maxima are; then no entry is NaN or +inf. It says itself which race it belongs to.
    std::optional<proto::race::Draw> draw;
    // All of the rank's entries above a value, as the maxima are of them, in no order: tokens and logits of
    // another process.
    std::span<const proto::BestEntry> best_entries;
    float best_above = std::numeric_limits<float>::infinity();
    // A code for each id that the request names, of those that are the rank's, and what tells which ids these
    // are (proto::NamedValues); null: none.
    const void* named_values = nullptr;
    std::uint32_t named = 0;
    std::uint32_t named_word = 0;
    // With a draw: its race's best, believed likewise. What stands before them is summed at `scale`, as the
    // rank's weight is.
    std::optional<proto::Racers> racers;
};

// A rank's slice: [tiles][columns][tile] elements. It holds whole blocks, block b being the ids 64 b to 64 b
// + 63, those that the rank's ids touch; what stands there for an id that is not the rank's is padding.
struct Slice {
    const void* elements = nullptr;
    std::uint32_t entries = 0;   // the rank's ids are first_id .. first_id + entries - 1
    std::uint32_t first_id = 0;  // some of them, or all, may lie beyond the vocabulary
    // Which block stands at each place, and at which place each block stands, counted from the rank's first
    // one. Each must be the other's inverse; null, both: they stand in the order of their ids.
    const std::uint32_t* blocks = nullptr;
    const std::uint32_t* places = nullptr;
    TileSummaries summaries = {};
    // Not null: the slice holds only what this says. Either all slices of a view have one or none has; tiles
    // are of 64 then.
    const LeanColumn* lean = nullptr;
};

struct RowView {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t vocab = 0;
    std::uint32_t tile = 1;
    std::uint32_t columns = 1;  // how many columns the step has: the stride between tiles
    std::uint32_t column = 0;
    std::span<const Slice> slices;
};

// Whether the view's slices follow one another over the ids 0 .. vocab - 1, and perhaps beyond, and its
// column exists.
bool view_is_consistent(const RowView& view) noexcept;

}  // namespace croupier::sampler
