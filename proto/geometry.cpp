#include "proto/geometry.h"

#include <algorithm>

#include "proto/decision.h"
#include "proto/lean_part.h"
#include "proto/logits_slot.h"
#include "proto/sampling.h"

namespace croupier::proto {
namespace {

std::optional<std::string> outside(const char* field, std::uint64_t value, std::uint64_t low,
                                   std::uint64_t high) {
    if (value >= low && value <= high) return std::nullopt;
    return std::string(field) + " is " + std::to_string(value) + ", allowed is " + std::to_string(low) +
           " to " + std::to_string(high);
}

std::optional<std::string> shard_fault(const Geometry& g) {
    std::uint64_t next = 0;
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        const RankShard& shard = g.shards[rank];
        if (shard.count == 0) {
            return "shard of rank " + std::to_string(rank) + " has 0 ids; each rank holds at least one";
        }
        if (shard.first_id != next) {
            return "shard of rank " + std::to_string(rank) + " starts at id " +
                   std::to_string(shard.first_id) + " with " + std::to_string(shard.count) +
                   " ids; it should start at id " + std::to_string(next);
        }
        next += shard.count;
        if (next > kMaxPaddedVocab) {
            return "the shards of rank 0 to " + std::to_string(rank) + " hold " + std::to_string(next) +
                   " ids together, allowed are " + std::to_string(kMaxPaddedVocab) +
                   ", those beyond the vocabulary with them";
        }
        if (g.tiles(rank) > ReadyWord::kTileMask) {
            return "shard of rank " + std::to_string(rank) + " has " + std::to_string(g.tiles(rank)) +
                   " tiles of " + std::to_string(g.tile) + " ids, a rank can have " +
                   std::to_string(ReadyWord::kTileMask) + "; use tiles of " + std::to_string(kBlockIds);
        }
    }
    if (next >= g.vocab) return std::nullopt;
    return "the shards hold " + std::to_string(next) + " ids together, the vocabulary has " +
           std::to_string(g.vocab) + "; they should hold all of it, and may hold padding after it";
}

std::optional<std::string> lean_fault(const Geometry& g) {
    if (!g.is_lean()) return std::nullopt;
    if (g.lean_blocks % kLeanGranule != 0 || g.lean_blocks > kMostLeanBlocks) {
        return "lean_blocks is " + std::to_string(g.lean_blocks) + ", allowed is a multiple of " +
               std::to_string(kLeanGranule) + " up to " + std::to_string(kMostLeanBlocks) +
               ", or 0 for the transport rows";
    }
    if (g.tile != kBlockIds) {
        return "tile is " + std::to_string(g.tile) + ", the transport lean has tiles of " +
               std::to_string(kBlockIds) + ": open the session with those, or with the transport rows";
    }
    if (g.has_order != 0) {
        return "the session has a hotness order, which the transport lean has no use for: open it with the "
               "transport rows";
    }
    if (g.has_summaries == 0) return std::nullopt;
    return "the session has summaries, which the transport lean has no use for: its writers send the largest "
           "logit of every block anyway; open it without, or with the transport rows";
}

struct Field {
    const char* name;  // the option's
    std::uint32_t Geometry::*field;
};
constexpr Field kFields[] = {
    {"vocab", &Geometry::vocab},
    {"tp", &Geometry::tp},
    {"max_batch", &Geometry::max_batch},
    {"max_windows", &Geometry::max_windows},
    {"steps_in_flight", &Geometry::slots},
    {"tile", &Geometry::tile},
    {"max_sequences", &Geometry::max_sequences},
    {"max_length", &Geometry::max_length},
    {"max_bias", &Geometry::max_bias},
    {"max_stop_ids", &Geometry::max_stop_ids},
    {"max_list_tokens", &Geometry::max_list_tokens},
    {"mask_rows", &Geometry::mask_rows},
    {"summaries", &Geometry::has_summaries},
    {"max_logprobs", &Geometry::max_logprobs},
    {"max_support", &Geometry::max_support},
};

std::string differs(const std::string& field, const std::string& present, const std::string& asked) {
    return field + " is " + present + " in the session and " + asked + " in the options";
}

// Of the first rank that holds others.
std::string shards_difference(const Geometry& present, const Geometry& asked) {
    std::uint32_t rank = 0;
    while (rank + 1 < kMaxTp && present.shards[rank] == asked.shards[rank]) ++rank;
    const auto ids = [rank](const Geometry& g) { return std::to_string(g.shards[rank].count); };
    return differs("the number of ids of rank " + std::to_string(rank), ids(present), ids(asked)) +
           " (padded_vocab, shard_ids)";
}

}  // namespace

void fill_even_shards(Geometry& g, std::uint32_t padded_vocab) {
    const std::uint32_t tp = std::clamp(g.tp, 1U, kMaxTp);
    const std::uint32_t ids = std::max(g.vocab, padded_vocab);
    const std::uint32_t each = (ids + tp - 1) / tp;
    std::uint32_t next = 0;
    for (std::uint32_t rank = 0; rank < tp; ++rank) {
        // A vocabulary that does not divide leaves the last ranks short, never empty.
        const std::uint32_t ranks_after = tp - rank - 1;
        const std::uint32_t left = ids - next;
        const std::uint32_t count = std::min(each, left > ranks_after ? left - ranks_after : 1U);
        g.shards[rank] = {next, count};
        next += count;
    }
}

std::optional<std::string> sending_fault(const Geometry& g) {
    const std::uint64_t column =
        g.max_logprobs * sizeof(RankedLogprob) + g.max_support * std::uint64_t{sizeof(Survivor)};
    const std::uint64_t step = column * g.max_batch;
    if (step <= kMostSentBeside) return std::nullopt;
    return "the log-probs and supports of a step of " + std::to_string(g.max_batch) + " columns are " +
           std::to_string(step) + " bytes, over ZMQ they may be " + std::to_string(kMostSentBeside) +
           ": open the session with a smaller max_support, max_logprobs or max_batch";
}

std::optional<std::string> geometry_fault(const Geometry& g) {
    if (auto fault = outside("vocab", g.vocab, 1, kMaxVocab)) return fault;
    if (auto fault = outside("tp", g.tp, 1, std::min(kMaxTp, g.vocab))) return fault;
    if (auto fault = outside("max_batch", g.max_batch, 1, kMaxBatch)) return fault;
    if (auto fault = outside("max_windows", g.max_windows, 0, g.max_batch)) return fault;
    if (auto fault = outside("slots", g.slots, 1, kMaxSlots)) return fault;
    if (auto fault = outside("dtype", static_cast<std::uint32_t>(g.dtype), 0, 2)) return fault;
    if (g.tile != 1 && g.tile != kBlockIds)
        return "tile is " + std::to_string(g.tile) + ", allowed are 1 and " + std::to_string(kBlockIds);
    if (auto fault = outside("max_sequences", g.max_sequences, 1, kMaxSequences)) return fault;
    if (auto fault = outside("max_length", g.max_length, 2, kMaxLength)) return fault;
    if (auto fault = outside("max_bias", g.max_bias, 0, kMaxBias)) return fault;
    if (auto fault = outside("max_stop_ids", g.max_stop_ids, 0, kMaxStopIds)) return fault;
    if (auto fault = outside("max_list_tokens", g.max_list_tokens, 0, kMaxListTokens)) return fault;
    if (auto fault = outside("mask_rows", g.mask_rows, 0, kMaxBatch)) return fault;
    if (auto fault = outside("has_order", g.has_order, 0, 1)) return fault;
    if (auto fault = outside("has_summaries", g.has_summaries, 0, 1)) return fault;
    if (auto fault = outside("max_logprobs", g.max_logprobs, 0, kMaxSessionLogprobs)) return fault;
    if (auto fault = outside("max_support", g.max_support, 0, kMaxSupport)) return fault;
    if (auto fault = outside("the tokenizer's bytes", g.token_table_bytes, 0, kMaxTokenTableBytes))
        return fault;
    if (auto fault = lean_fault(g)) return fault;
    return shard_fault(g);
}

std::optional<std::string> geometry_difference(const Geometry& present, const Geometry& asked) {
    if (present.is_lean() != asked.is_lean())
        return differs("transport", present.transport(), asked.transport());
    for (const Field& field : kFields) {
        const std::uint32_t has = present.*field.field;
        const std::uint32_t wants = asked.*field.field;
        if (has != wants) return differs(field.name, std::to_string(has), std::to_string(wants));
    }
    if (present.dtype != asked.dtype) return differs("dtype", name_of(present.dtype), name_of(asked.dtype));
    if (present.has_order != asked.has_order) {
        const auto order = [](const Geometry& g) { return g.has_order != 0 ? "given" : "absent"; };
        return differs("the hotness order", order(present), order(asked));
    }
    if (present.token_table_bytes != asked.token_table_bytes) {
        const auto tokenizer = [](const Geometry& g) {
            return g.token_table_bytes == 0 ? std::string("absent")
                                            : "one of " + std::to_string(g.token_table_bytes) + " bytes";
        };
        return differs("the tokenizer", tokenizer(present), tokenizer(asked));
    }
    if (present.shards != asked.shards) return shards_difference(present, asked);
    if (present == asked) return std::nullopt;
    return differs("lean_blocks", std::to_string(present.lean_blocks), std::to_string(asked.lean_blocks));
}

}  // namespace croupier::proto
