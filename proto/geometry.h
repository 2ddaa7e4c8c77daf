// The shape of one session: everything that fixes where a byte lies in its segment.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/dtype.h"

namespace croupier::proto {

// Limits are generous multiples of what is served today; each bounds a loop or an allocation that is
// driven by bytes from another process.
constexpr std::uint32_t kMaxTp = 64;
constexpr std::uint32_t kMaxVocab = 1U << 20U;
constexpr std::uint32_t kMaxBatch = 16384;
constexpr std::uint32_t kMaxSlots = 64;
constexpr std::uint32_t kMaxSequences = 65536;
constexpr std::uint32_t kMaxLength = 1U << 21U;
constexpr std::uint32_t kMaxStopIds = 256;
constexpr std::uint32_t kMaxListTokens = 1U << 16U;
// Ten times that of the largest vocabulary in use; a message to the daemon carries it.
constexpr std::uint32_t kMaxTokenTableBytes = 48U << 20U;

// Logits lie by blocks of so many ids: block b is the ids 64 b to 64 b + 63, whoever holds them.
constexpr std::uint32_t kBlockIds = 64;
constexpr std::uint32_t blocks_of(std::uint32_t ids) {
    return (ids + kBlockIds - 1) / kBlockIds;
}

// Engines pad the vocabulary until it divides among the ranks: the shards may hold ids beyond it, up to so
// many in all.
constexpr std::uint32_t kMaxPaddedVocab = 2 * kMaxVocab;

struct RankShard {
    std::uint32_t first_id = 0;
    std::uint32_t count = 0;

    // The blocks that its ids touch: the first and the last may be other ranks' too.
    std::uint32_t first_block() const { return first_id / kBlockIds; }
    std::uint32_t blocks() const { return count == 0 ? 0 : blocks_of(first_id + count) - first_block(); }

    bool operator==(const RankShard&) const = default;
};

struct Geometry {
    std::uint32_t vocab = 0;
    std::uint32_t tp = 1;
    std::uint32_t max_batch = 1;
    std::uint32_t slots = 1;  // steps in flight
    Dtype dtype = Dtype::bf16;
    std::uint32_t tile = 64;
    std::uint32_t max_sequences = 1;
    std::uint32_t max_length = 1;  // prompt and output of one sequence
    std::uint32_t max_bias = 64;
    std::uint32_t max_stop_ids = 8;
    std::uint32_t max_list_tokens = 1024;  // words of all lists of one sequence together
    std::uint32_t mask_rows = 0;           // grammar masks a step may carry
    std::uint32_t has_order = 0;           // 1: the segment holds an order of blocks; 0: identity
    std::uint32_t has_summaries = 0;       // 1: writers give the largest logit of each tile and column too
    std::uint32_t max_logprobs = 0;        // the best of a column, beside the drawn token's own
    std::uint32_t max_support = 0;         // tokens left to draw from, of a column
    std::uint32_t lean_blocks = 0;         // of the transport `lean`: room for so many blocks of a column
    std::uint32_t max_windows = 0;         // of a step; 0: as many as its rows
    std::uint32_t token_table_bytes = 0;   // of the tokenizer that samplers search stop strings with; 0: none
    std::array<std::uint32_t, 13> reserved{};  // 0
    std::array<RankShard, kMaxTp> shards{};

    std::uint32_t blocks() const { return blocks_of(vocab); }
    // The session's transport: all of its writers send every step lean, or all send whole rows.
    bool is_lean() const { return lean_blocks != 0; }
    const char* transport() const { return is_lean() ? "lean" : "rows"; }
    // In a slice, in a step of so many rows: places for whole rows, or for the blocks that are asked for of
    // one. In the transport lean a window has one, for whichever of its rows is due.
    std::uint32_t row_places(std::uint32_t rows) const {
        return is_lean() && max_windows != 0 ? std::min(rows, max_windows) : rows;
    }
    // Of a rank's ids, those that are in the vocabulary: its first ones.
    std::uint32_t real_ids(std::uint32_t rank) const {
        const RankShard& shard = shards[rank];
        return shard.first_id < vocab ? std::min(shard.count, vocab - shard.first_id) : 0;
    }
    // A slice holds whole blocks, and ends with a whole tile.
    std::uint32_t tiles(std::uint32_t rank) const {
        return (shards[rank].blocks() * kBlockIds + tile - 1) / tile;
    }
    // Floats from one column's maxima to the next one's: whole cache lines. A column's are read all at once
    // and one after another, unlike its tiles.
    std::uint32_t maxima_stride(std::uint32_t rank) const { return (tiles(rank) + 15) / 16 * 16; }
    bool operator==(const Geometry&) const = default;
};
static_assert(sizeof(Geometry) == 32 * 4 + kMaxTp * 8, "a new field takes reserved words");

// Shards of equal size but for the last ones, as engines cut an LM head. `padded_vocab`: of all shards
// together, where it is more than the vocabulary.
void fill_even_shards(Geometry& geometry, std::uint32_t padded_vocab = 0);

// What a message has of a step's log-probs and supports at most, where its decisions are sent: it is made and
// sent whole by one thread that serves all sessions.
constexpr std::uint64_t kMostSentBeside = 64U << 20U;
// Empty when the decisions of such a session may be sent; else a sentence that says what would be right.
std::optional<std::string> sending_fault(const Geometry& geometry);

// Empty when the geometry is usable; else a sentence that names the field, its value and its range.
std::optional<std::string> geometry_fault(const Geometry& geometry);

// Empty when both are the same; else the first field in which a present session differs from what is asked
// for.
std::optional<std::string> geometry_difference(const Geometry& present, const Geometry& asked);

}  // namespace croupier::proto
