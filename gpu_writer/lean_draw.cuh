// Draws a column's token of its row with all threads of a CUDA block: some blocks with good bounds are opened
// first, and then those that may hold a better token than they did.
#pragma once

#include "gpu_writer/lean_ranks.cuh"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

// A token by what it wins with: the larger, the better its score, of equal scores the smaller its id. Below
// all of them: 0.
using Contender = unsigned long long;

__device__ inline Contender contender(std::uint32_t rank_of_score, std::uint32_t token) {
    return Contender{rank_of_score} << 32U | ~token;
}
__device__ inline std::uint32_t token_of(Contender of) {
    return ~static_cast<std::uint32_t>(of);
}
__device__ inline float score_of(Contender of) {
    return value_of_rank(static_cast<std::uint32_t>(of >> 32U));
}

// Over the lanes that open one block together.
template <std::uint32_t kLanes>
__device__ Contender best_of_lanes(Contender own) {
#pragma unroll
    for (std::uint32_t apart = kLanes / 2; apart > 0; apart /= 2) {
        own = max(own, __shfl_xor_sync(kAllLanes, own, static_cast<int>(apart)));
    }
    return own;
}

// Whether the row has a winner that its largest entries tell of, by the rank of the largest of all: no NaN,
// no +inf, not -inf alone.
__device__ inline bool can_be_drawn(std::uint32_t top) {
    return top > kEmptyRank && top < rank_of(std::numeric_limits<float>::infinity());
}

// What one lane looks at of a block that is opened: the members that share a counter of the randoms.
constexpr std::uint32_t kDrawTokens = 4;
constexpr std::uint32_t kDrawLanes = proto::kBlockIds / kDrawTokens;
constexpr std::uint32_t kDrawGroups = kLeanThreads / kDrawLanes;

// How the block of the lanes that open one together begins to race: they share the words' making.
template <std::uint32_t kTogether>
struct FirstRacer {
    float arrival;
    std::uint32_t token;

    __device__ FirstRacer(const proto::race::Key& key, std::uint32_t block) {
        namespace race = proto::race;
        const bool makes_block = threadIdx.x % kTogether < kTogether / 2;
        const std::uint32_t stream = makes_block ? race::kBlockStream : race::kFirstMemberStream;
        const std::uint32_t word = word_of_block(key, stream, block);
        constexpr int kLanes = kTogether;
        const int lanes = static_cast<int>(threadIdx.x % 32) / kLanes * kLanes;
        arrival = race::first_arrival(__shfl_sync(kAllLanes, word, lanes));
        const std::uint32_t member = race::first_member(__shfl_sync(kAllLanes, word, lanes + kLanes / 2));
        token = block * race::kBlockTokens + member;
    }
};

// Of so many tokens, the first of which is `id`; by all lanes of a warp.
__device__ inline Contender best_racer(const float (&logits)[kDrawTokens], const LeanWant& want,
                                       std::uint32_t id) {
    namespace race = proto::race;
    const FirstRacer<kDrawLanes> first(want.key, id / race::kBlockTokens);
    const auto words = proto::randoms_at(want.key.seed, want.key.position, want.key.child,
                                         race::kMemberStream, id / kDrawTokens);
    Contender best = 0;
// One after the other: to fetch the instructions of four took longer.
#pragma unroll 1
    for (std::uint32_t i = 0; i < kDrawTokens; ++i) {
        if (rank_of(logits[i]) <= kEmptyRank) continue;
        const float arrival =
            id + i == first.token ? first.arrival : race::later_arrival(first.arrival, words[i]);
        const float score = race::score(logits[i], want.temperature, race::ln(arrival)) + 0.0F;
        best = max(best, contender(rank_of(score), id + i));
    }
    return best;
}

__device__ inline Contender best_logit(const float (&logits)[kDrawTokens], std::uint32_t id) {
    Contender best = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < kDrawTokens; ++i) {
        const std::uint32_t rank = rank_of(logits[i] + 0.0F);
        if (rank > kEmptyRank) best = max(best, contender(rank, id + i));
    }
    return best;
}

template <proto::Dtype D>
struct Drawing {
    const RowReader<D>& reader;
    const LeanWant& want;
    const BlockRanks& ranks;
    ChoiceRoom& room;
    std::uint32_t column;
    std::uint32_t first_block;
    ColumnMask mask;

    __device__ bool races() const { return want.temperature > 0.0F; }
    __device__ std::uint32_t* bounds() const { return ranks.of(races() ? 1 : 0); }
    // The best that the block may hold: of equal scores none is better than that of its first token.
    __device__ Contender bound_of(std::uint32_t block) const {
        const std::uint32_t rank = bounds()[block];
        return rank > kEmptyRank ? contender(rank, (first_block + block) * proto::kBlockIds) : 0;
    }
    // By the lanes that open a block together, if it is to be opened; all of a warp take part.
    __device__ void open(bool opens, std::uint32_t block, Contender& best) const {
        const std::uint32_t within = threadIdx.x % kDrawLanes * kDrawTokens;
        const std::uint32_t entry =
            opens ? reader.entry_at(block * proto::kBlockIds + within) : reader.rows.entries;
        const std::uint32_t id = (first_block + block) * proto::kBlockIds + within;
        const std::uint64_t allowed = mask.hides() ? mask.from(block, within) : ~std::uint64_t{0};
        float logits[kDrawTokens];
#pragma unroll
        for (std::uint32_t i = 0; i < kDrawTokens; ++i) {
            const bool is_hidden = (allowed >> i & 1U) == 0;
            logits[i] = value_of<D>(reader.code(column, is_hidden ? reader.rows.entries : entry + i));
        }
        Contender found = races() ? best_racer(logits, want, id) : best_logit(logits, id);
        found = best_of_lanes<kDrawLanes>(found);
        if (threadIdx.x % kDrawLanes == 0 && found > best) atomicMax(&best, found);
    }
    // Into the list, of the blocks that the lanes have ranked that open one together, the best by bound: one
    // of them bounds nearly all others. Returns how many.
    __device__ std::uint32_t list_best_ranked() const {
        Contender bound = 0;
        for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
            bound = max(bound, bound_of(block));
        }
        bound = best_of_lanes<kDrawLanes>(bound);
        // Of a group without one, none that there is.
        const std::uint32_t block =
            bound > 0 ? token_of(bound) / proto::kBlockIds - first_block : ranks.blocks;
        if (threadIdx.x % kDrawLanes == 0)
            room.found[threadIdx.x / kDrawLanes] = static_cast<std::uint16_t>(block);
        __syncthreads();
        return kDrawGroups;
    }
    // How many blocks may still hold a better one: the first of them, as far as it has room, are in the list.
    __device__ std::uint32_t list_better(Contender best) const {
        for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
            if (bound_of(block) <= best) continue;
            const std::uint32_t at = atomicAdd(&room.opened, 1U);
            if (at >= proto::kMostLeanBlocks) continue;
            room.found[at] = static_cast<std::uint16_t>(block);
        }
        __syncthreads();
        const std::uint32_t better = room.opened;
        __syncthreads();
        if (threadIdx.x == 0) room.opened = 0;
        return better;
    }
    // Those of the list that may still hold a better one when their turn comes: of flat rows they are few of
    // many.
    __device__ void open_listed(std::uint32_t listed, Contender& best) const {
        const volatile Contender& now = best;
        for (std::uint32_t first = 0; first < listed; first += kDrawGroups) {
            const std::uint32_t at = first + threadIdx.x / kDrawLanes;
            const std::uint32_t block = at < listed ? room.found[at] : ranks.blocks;
            const Contender bound = block < ranks.blocks ? bound_of(block) : 0;
            const bool opens = bound > now;
            if (__any_sync(kAllLanes, opens) != 0) open(opens, block, best);
            // It is not listed again. All lanes have read its bound.
            __syncwarp();
            if (bound > 0 && threadIdx.x % kDrawLanes == 0) bounds()[block] = 0;
        }
        __syncthreads();
    }
};

// Of rows that can be drawn. `best`, in shared memory, is none before, or not above the winner; all threads
// see the winner in it behind the next barrier. Spoils the ranks by which blocks are opened, and the room for
// blocks that were found.
template <proto::Dtype D>
__device__ void draw_token(const Drawing<D>& drawing, Contender& best) {
    std::uint32_t listed = drawing.list_best_ranked();
    // One place that opens: a kernel's instructions come from afar at each launch.
    for (bool is_last = false;;) {
        drawing.open_listed(listed, best);
        if (is_last) break;
        const std::uint32_t better = drawing.list_better(best);
        is_last = better <= proto::kMostLeanBlocks;
        listed = min(better, proto::kMostLeanBlocks);
    }
}

}  // namespace croupier::gpu_writer
