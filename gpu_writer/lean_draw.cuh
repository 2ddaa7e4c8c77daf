// Draws a column's token of its row with all threads of a CUDA block: the row's blocks are opened best bound
// first, many at a time, until no other one can hold the winner.
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

// Whether the row has a winner that its largest entries tell of: no NaN, no +inf, not -inf alone.
__device__ inline bool can_be_drawn(const BlockRanks& ranks) {
    constexpr std::uint32_t kInfinite = rank_of(std::numeric_limits<float>::infinity());
    bool any = false;
    bool faulty = false;
    for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
        const std::uint32_t rank = ranks.of[0][block];
        any = any || rank > kEmptyRank;
        faulty = faulty || rank >= kInfinite;
    }
    const bool any_faulty = __syncthreads_or(faulty ? 1 : 0) != 0;
    return __syncthreads_or(any ? 1 : 0) != 0 && !any_faulty;
}

// word_of() without an index that is known at run time only, which would take the words to memory.
__device__ inline std::uint32_t word_of_block(const proto::race::Key& key, std::uint32_t stream,
                                              std::uint32_t block) {
    const auto words = proto::randoms_at(key.seed, key.position, key.child, stream, block / 4);
    const std::uint32_t low = block % 2 == 0 ? words[0] : words[1];
    const std::uint32_t high = block % 2 == 0 ? words[2] : words[3];
    return block % 4 < 2 ? low : high;
}

// What one lane looks at of a block that is opened: the members that share a counter of the randoms.
constexpr std::uint32_t kDrawTokens = 4;
constexpr std::uint32_t kDrawLanes = proto::kBlockIds / kDrawTokens;

// Of so many tokens, the first of which is `id`.
__device__ inline Contender best_racer(const float (&logits)[kDrawTokens], const LeanWant& want,
                                       std::uint32_t id) {
    namespace race = proto::race;
    const std::uint32_t block = id / race::kBlockTokens;
    const float first = race::first_arrival(word_of_block(want.key, race::kBlockStream, block));
    const std::uint32_t first_id =
        block * race::kBlockTokens +
        race::first_member(word_of_block(want.key, race::kFirstMemberStream, block));
    const auto words = proto::randoms_at(want.key.seed, want.key.position, want.key.child,
                                         race::kMemberStream, id / kDrawTokens);
    Contender best = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < kDrawTokens; ++i) {
        if (rank_of(logits[i]) <= kEmptyRank) continue;
        const float arrival = id + i == first_id ? first : race::later_arrival(first, words[i]);
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

// Of rows that can be drawn. `best`, in shared memory, is 0 before; all threads see the winner in it. Spoils
// the ranks by which blocks are opened. In each round a few lanes open the best block of those that they have
// ranked, if it may still hold the winner.
template <proto::Dtype D>
__device__ void draw_token(const RowReader<D>& reader, std::uint32_t column, const LeanWant& want,
                           std::uint32_t first_block, const BlockRanks& ranks, Contender& best) {
    const bool races = want.temperature > 0.0F;
    std::uint32_t* const bounds = ranks.of[races ? 1 : 0];
    for (;;) {
        Contender bound = 0;
        for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
            // Of equal scores none is better than that of the block's first token.
            const std::uint32_t id = (first_block + block) * proto::kBlockIds;
            if (bounds[block] > kEmptyRank) bound = max(bound, contender(bounds[block], id));
        }
        bound = best_of_lanes<kDrawLanes>(bound);
        const bool opens = bound > best;
        if (__syncthreads_or(opens ? 1 : 0) == 0) return;
        Contender found = 0;
        if (opens) {
            const std::uint32_t id = token_of(bound) + threadIdx.x % kDrawLanes * kDrawTokens;
            const std::uint32_t place = id - first_block * proto::kBlockIds;
            float logits[kDrawTokens];
#pragma unroll
            for (std::uint32_t i = 0; i < kDrawTokens; ++i) {
                logits[i] = value_of<D>(reader.at(column, place + i));
            }
            found = races ? best_racer(logits, want, id) : best_logit(logits, id);
            const std::uint32_t block = place / proto::kBlockIds;
            if (block % kLeanThreads == threadIdx.x) bounds[block] = 0;
        }
        found = best_of_lanes<kDrawLanes>(found);
        if (threadIdx.x % kDrawLanes == 0 && found > 0) atomicMax(&best, found);
        __syncthreads();
    }
}

}  // namespace croupier::gpu_writer
