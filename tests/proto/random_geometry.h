// Geometries drawn from the whole allowed range, with its ends more often than chance would give them.
#pragma once

#include <algorithm>
#include <random>

#include "proto/geometry.h"
#include "proto/lean_part.h"
#include "proto/sampling.h"

namespace croupier::proto {

class RandomGeometry {
  public:
    explicit RandomGeometry(std::uint32_t seed) : random_(seed) {}

    Geometry draw() {
        Geometry g;
        g.vocab = between(1, kMaxVocab);
        g.tp = between(1, std::min(kMaxTp, g.vocab));
        g.max_batch = between(1, kMaxBatch);
        g.max_windows = between(0, g.max_batch);
        g.slots = between(1, kMaxSlots);
        g.dtype = static_cast<Dtype>(between(0, 2));
        g.max_sequences = between(1, kMaxSequences);
        g.max_length = between(2, kMaxLength);
        g.max_bias = between(0, kMaxBias);
        g.max_stop_ids = between(0, kMaxStopIds);
        g.max_list_tokens = between(0, kMaxListTokens);
        g.mask_rows = between(0, kMaxBatch);
        g.has_order = between(0, 1);
        g.has_summaries = between(0, 1);
        g.token_table_bytes = between(0, 1) == 0 ? 0 : between(1, kMaxTokenTableBytes);
        cut_shards(g);
        // A rank of a million ids has too many tiles of one.
        const RankShard& last = g.shards[g.tp - 1];
        g.tile = last.first_id + last.count < kMaxVocab / 2 && between(0, 1) == 0 ? 1 : kBlockIds;
        // Of all sessions a quarter is lean.
        if (between(0, 3) == 0) {
            g.tile = kBlockIds;
            g.has_order = g.has_summaries = 0;
            g.lean_blocks = kLeanGranule * between(1, kMostLeanBlocks / kLeanGranule);
        }
        return g;
    }

  private:
    std::uint32_t between(std::uint32_t low, std::uint32_t high) {
        switch (std::uniform_int_distribution<int>(0, 7)(random_)) {
            case 0:
                return low;
            case 1:
                return high;
            case 2:
                return std::uniform_int_distribution<std::uint32_t>(low, std::min(high, low + 9))(random_);
            default:
                return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
        }
    }

    void cut_shards(Geometry& g) {
        if (between(0, 1) == 0)
            return fill_even_shards(g, between(0, 1) == 0 ? 0 : between(1, kMaxPaddedVocab - 64));
        const std::uint32_t padding = between(0, 3) == 0 ? between(0, kMaxVocab - 64) : 0;
        std::uint32_t next = 0;
        for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
            const std::uint32_t spare = g.vocab + padding - next - (g.tp - rank - 1);
            const std::uint32_t count = rank + 1 == g.tp ? g.vocab + padding - next : between(1, spare);
            g.shards[rank] = {next, count};
            next += count;
        }
    }

    std::mt19937 random_;
};

}  // namespace croupier::proto
