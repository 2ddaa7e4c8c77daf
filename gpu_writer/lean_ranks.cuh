// Finds a column's best blocks with all threads of a CUDA block, by radix: from the highest byte of the ranks
// down, a histogram says which byte the last chosen rank has.
#pragma once

#include "gpu_writer/lean_choice.h"
#include "proto/lean_part.h"

namespace croupier::gpu_writer {

constexpr std::uint32_t kLeanThreads = 256;
constexpr std::uint32_t kLeanWarps = kLeanThreads / 32;
constexpr std::uint32_t kBins = 256;
constexpr std::uint32_t kAllLanes = 0xFFFFFFFFU;
constexpr std::uint32_t kWays = 2;  // by maximum, by race

// In one way: the blocks whose rank is above `least`, and the first `ties` of those whose rank it is.
struct Choice {
    std::uint32_t least;
    std::uint32_t ties;
    // While `least` is sought: its bytes that are found, which those are, and how many of the blocks that
    // share them are to be chosen.
    std::uint32_t found;
    std::uint32_t found_bits;
    std::uint32_t wanted;
    std::uint32_t sought;

    __device__ void seek(std::uint32_t count) { *this = {0xFFFFFFFFU, 0, 0, 0, count, count > 0 ? 1U : 0U}; }
    __device__ bool may_be_last(std::uint32_t rank) const {
        return sought != 0 && rank > kEmptyRank && (rank & found_bits) == found;
    }
};

// In shared memory, of `blocks` blocks.
struct BlockRanks {
    std::uint32_t* of[kWays];
    std::uint32_t* chosen;       // bitmaps
    std::uint32_t* tied[kWays];  // with a choice's `least`
    std::uint32_t blocks;
    std::uint32_t words;  // of a bitmap
    std::uint32_t ways;   // those that are ranked: the first ones

    __device__ BlockRanks(std::uint32_t* memory, std::uint32_t count)
        : of{memory, memory + count}, blocks(count), words((count + 31) / 32), ways(kWays) {
        chosen = memory + std::size_t{kWays} * count;
        for (std::uint32_t way = 0; way < kWays; ++way) tied[way] = chosen + (1 + way) * words;
    }
};
inline std::size_t rank_bytes(std::uint32_t blocks) {
    return (std::size_t{kWays} * blocks + std::size_t{1 + kWays} * ((blocks + 31) / 32)) *
           sizeof(std::uint32_t);
}

// The blocks' ranks in the race. One counter of the randoms is of four blocks.
__device__ inline void rank_by_race(const LeanWant& want, std::uint32_t first_block,
                                    const BlockRanks& ranks) {
    namespace race = proto::race;
    const std::uint32_t end = (first_block + ranks.blocks + 3) / 4;
    for (std::uint32_t counter = first_block / 4 + threadIdx.x; counter < end; counter += kLeanThreads) {
        const auto words =
            proto::randoms_at(want.key.seed, want.key.position, want.key.child, race::kBlockStream, counter);
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) {
            // Of blocks before the first one, a number near the largest.
            const std::uint32_t block = counter * 4 + i - first_block;
            if (block >= ranks.blocks) continue;
            const float ln_first = race::ln(race::first_arrival(words[i]));
            ranks.of[1][block] = race_rank(ranks.of[0][block], want.temperature, ln_first);
        }
    }
}

struct ChoiceRoom {
    Choice choices[kWays];
    std::uint32_t bins[kWays][kBins];
    std::uint32_t sent;
    alignas(16) std::uint16_t list[proto::kMostLeanBlocks];
};

// Of this lane and those before it; all lanes of a warp take part.
__device__ inline std::uint32_t sum_so_far(std::uint32_t value) {
    for (std::uint32_t apart = 1; apart < 32; apart *= 2) {
        const std::uint32_t other = __shfl_up_sync(kAllLanes, value, apart);
        if (threadIdx.x % 32 >= apart) value += other;
    }
    return value;
}

// By one warp: finds the byte at `shift` of the choice's last rank.
__device__ inline void find_byte(Choice& choice, const std::uint32_t* bins, std::uint32_t shift) {
    constexpr std::uint32_t kEach = kBins / 32;
    if (choice.sought == 0) return;
    // The lanes have the bins from above.
    std::uint32_t bin = kBins - 1 - threadIdx.x % 32 * kEach;
    std::uint32_t own = 0;
    for (std::uint32_t i = 0; i < kEach; ++i) own += bins[bin - i];
    const std::uint32_t until = sum_so_far(own);
    const std::uint32_t all = __shfl_sync(kAllLanes, until, 31);
    const std::uint32_t wanted = choice.wanted;
    __syncwarp();
    if (all <= wanted) {
        // Not more blocks than are wanted: all that are not empty.
        if (threadIdx.x % 32 == 0) choice = {kEmptyRank, 0, 0, 0, 0, 0};
        return;
    }
    if (until - own >= wanted || until < wanted) return;
    std::uint32_t left = wanted - (until - own);
    while (left > bins[bin]) left -= bins[bin--];
    const std::uint32_t found = choice.found | bin << shift;
    const std::uint32_t found_bits = choice.found_bits | (kBins - 1) << shift;
    if (left == bins[bin]) {
        choice = {(found > kEmptyRank ? found : kEmptyRank + 1) - 1, 0, 0, 0, 0, 0};
    } else if (shift == 0) {
        choice = {found, left, 0, 0, 0, 0};
    } else {
        choice = {0, 0, found, found_bits, left, 1};
    }
}

__device__ inline void find_choices(const BlockRanks& ranks, ChoiceRoom& room) {
    for (std::uint32_t shift = 32; shift > 0 && (room.choices[0].sought | room.choices[1].sought) != 0;) {
        shift -= 8;
        for (std::uint32_t i = threadIdx.x; i < kWays * kBins; i += kLeanThreads) {
            room.bins[i / kBins][i % kBins] = 0;
        }
        __syncthreads();
        for (std::uint32_t way = 0; way < ranks.ways; ++way) {
            const Choice choice = room.choices[way];
            for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
                const std::uint32_t rank = ranks.of[way][block];
                if (choice.may_be_last(rank)) atomicAdd(&room.bins[way][rank >> shift & (kBins - 1)], 1U);
            }
        }
        __syncthreads();
        const std::uint32_t way = threadIdx.x / 32;
        if (way < ranks.ways) find_byte(room.choices[way], room.bins[way], shift);
        __syncthreads();
    }
}

__device__ inline void mark_blocks(const BlockRanks& ranks, const BlockSpan& span, const ChoiceRoom& room) {
    for (std::uint32_t word = threadIdx.x / 32; word < ranks.words; word += kLeanWarps) {
        const std::uint32_t block = word * 32 + threadIdx.x % 32;
        bool chosen = span.always_sent(block);
        for (std::uint32_t way = 0; way < ranks.ways; ++way) {
            const Choice& choice = room.choices[way];
            const std::uint32_t rank = block < ranks.blocks ? ranks.of[way][block] : 0;
            chosen = chosen || rank > choice.least;
            const std::uint32_t tied = __ballot_sync(kAllLanes, choice.ties > 0 && rank == choice.least);
            if (threadIdx.x % 32 == 0) ranks.tied[way][word] = tied;
        }
        const std::uint32_t bits = __ballot_sync(kAllLanes, chosen);
        if (threadIdx.x % 32 == 0) ranks.chosen[word] = bits;
    }
}

__device__ inline std::uint32_t lowest_bits(std::uint32_t bits, std::uint32_t count) {
    std::uint32_t kept = 0;
    for (; count > 0; --count) {
        kept |= bits & (0U - bits);
        bits &= bits - 1;
    }
    return kept;
}

// By one warp: of the blocks that tie, the first ones.
__device__ inline void choose_ties(const BlockRanks& ranks, std::uint32_t way, std::uint32_t ties) {
    for (std::uint32_t first = 0; first < ranks.words && ties > 0; first += 32) {
        const std::uint32_t word = first + threadIdx.x % 32;
        const std::uint32_t bits = word < ranks.words ? ranks.tied[way][word] : 0;
        const auto own = static_cast<std::uint32_t>(__popc(bits));
        const std::uint32_t until = sum_so_far(own);
        const std::uint32_t left = ties - min(ties, until - own);
        if (own > 0 && left > 0) atomicOr(ranks.chosen + word, lowest_bits(bits, min(own, left)));
        ties -= min(ties, __shfl_sync(kAllLanes, until, 31));
    }
}

// By one warp: the chosen blocks, ascending. Zeros follow them to the end of 16 bytes.
__device__ inline void list_chosen(const BlockRanks& ranks, ChoiceRoom& room) {
    std::uint32_t listed = 0;
    for (std::uint32_t first = 0; first < ranks.words; first += 32) {
        const std::uint32_t word = first + threadIdx.x % 32;
        std::uint32_t bits = word < ranks.words ? ranks.chosen[word] : 0;
        const auto own = static_cast<std::uint32_t>(__popc(bits));
        const std::uint32_t until = sum_so_far(own);
        std::uint32_t at = listed + until - own;
        for (; bits != 0; bits &= bits - 1) {
            room.list[at++] =
                static_cast<std::uint16_t>(word * 32 + static_cast<std::uint32_t>(__ffs(bits)) - 1);
        }
        listed += __shfl_sync(kAllLanes, until, 31);
    }
    const std::uint32_t behind = listed + threadIdx.x % 32;
    if (behind < (listed + 7) / 8 * 8) room.list[behind] = 0;
    if (threadIdx.x % 32 == 0) room.sent = listed;
}

// The list of what is sent, from the ranks. All of the block's threads see it.
__device__ inline void choose_blocks(const BlockRanks& ranks, const BlockSpan& span, ChoiceRoom& room) {
    find_choices(ranks, room);
    mark_blocks(ranks, span, room);
    __syncthreads();
    const std::uint32_t warp = threadIdx.x / 32;
    if (warp < ranks.ways) choose_ties(ranks, warp, room.choices[warp].ties);
    __syncthreads();
    if (warp == 0) list_chosen(ranks, room);
    __syncthreads();
}

}  // namespace croupier::gpu_writer
