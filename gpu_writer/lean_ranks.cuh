// Finds a column's best blocks with all threads of a CUDA block, which count how many ranks are above those
// that a search asks for.
#pragma once

#include "gpu_writer/lanes.cuh"
#include "gpu_writer/lean_choice.h"
#include "proto/lean_part.h"

namespace croupier::gpu_writer {

constexpr std::uint32_t kLeanThreads = 256;
constexpr std::uint32_t kLeanWarps = kLeanThreads / 32;
constexpr std::uint32_t kWays = 2;  // by maximum, by race

// In one way: the blocks whose rank is above `rank`, and those of this rank that stand before `tie_end`.
struct Choice {
    std::uint32_t rank;
    std::uint32_t ties;
    std::uint32_t tie_end;

    __device__ bool has(std::uint32_t of_block, std::uint32_t block) const {
        return of_block > rank || (of_block == rank && block < tie_end);
    }
    // As RankSearch has it.
    __device__ std::uint32_t enough_above() const { return ties > 0 ? rank - 1 : rank; }
};
// The ways from one to before another.
struct Ways {
    std::uint32_t first;
    std::uint32_t end;
};
struct BlockRange {
    std::uint32_t first;
    std::uint32_t end;
};

// In shared memory, in whole words of a warp: what is behind the last block has the rank of an empty one.
// Addresses are computed: arrays of them would stand in local memory.
struct BlockRanks {
    std::uint32_t* memory;
    std::uint32_t blocks;
    std::uint32_t ways;  // those that are ranked: the first ones

    __device__ BlockRanks(void* at, std::uint32_t count, std::uint32_t ranked)
        : memory(static_cast<std::uint32_t*>(at)), blocks(count), ways(ranked) {}

    static __host__ __device__ std::uint32_t places_of(std::uint32_t blocks) {
        return (blocks + 31) / 32 * 32;
    }
    __device__ std::uint32_t places() const { return places_of(blocks); }
    __device__ std::uint32_t* of(std::uint32_t way) const { return memory + way * places(); }
};
inline std::size_t rank_bytes(std::uint32_t blocks) {
    return std::size_t{kWays} * BlockRanks::places_of(blocks) * sizeof(std::uint32_t);
}

// word_of() without an index that is known at run time only, which would take the words to memory.
__device__ inline std::uint32_t word_of_block(const proto::race::Key& key, std::uint32_t stream,
                                              std::uint32_t block) {
    const auto words = proto::randoms_at(key.seed, key.position, key.child, stream, block / 4);
    const std::uint32_t low = block % 2 == 0 ? words[0] : words[1];
    const std::uint32_t high = block % 2 == 0 ? words[2] : words[3];
    return block % 4 < 2 ? low : high;
}

struct ChoiceRoom {
    LeanShares shares;
    float reach;
    std::uint32_t tops[kWays];  // the largest rank of each way
    Choice choices[kWays];
    // How many blocks are above the two ranks that are asked for, 16 bits each, in this turn and the next.
    std::uint32_t above[2][kWays];
    std::uint32_t sent;
    std::uint32_t opened;                                     // by a draw, in this turn
    alignas(16) std::uint16_t found[proto::kMostLeanBlocks];  // chosen or opened blocks, in no order
    alignas(16) std::uint16_t list[proto::kMostLeanBlocks];   // ascending

    // By all threads, which see it behind the next barrier.
    __device__ void begin(const LeanShares& wanted, float how_far) {
        for (std::uint32_t i = threadIdx.x; i < proto::kMostLeanBlocks; i += kLeanThreads) found[i] = 0xFFFF;
        if (threadIdx.x != 0) return;
        shares = wanted;
        reach = how_far;
        sent = 0;
        opened = 0;
        for (std::uint32_t way = 0; way < kWays; ++way) {
            tops[way] = 0;
            choices[way] = {kAllLanes, 0, 0};
            above[0][way] = 0;
        }
    }
};

// From where each way's choice is sought.
__device__ inline void find_tops(const BlockRanks& ranks, ChoiceRoom& room) {
    for (std::uint32_t way = 0; way < ranks.ways; ++way) {
        std::uint32_t top = 0;
        const auto* four = reinterpret_cast<const uint4*>(ranks.of(way));
        for (std::uint32_t i = threadIdx.x; i * 4 < ranks.places(); i += kLeanThreads) {
            const uint4 each = four[i];
            top = max(max(top, max(each.x, each.y)), max(each.z, each.w));
        }
        top = __reduce_max_sync(kAllLanes, top);
        if (threadIdx.x % 32 == 0) atomicMax(&room.tops[way], top);
    }
    __syncthreads();
}

// Of one way's ranks, those that some threads hold together: how many are above two of them, 16 bits each.
__device__ inline std::uint32_t count_above(const BlockRanks& ranks, std::uint32_t way, std::uint32_t thread,
                                            std::uint32_t threads, const RankSearch& search) {
    const auto* four = reinterpret_cast<const uint4*>(ranks.of(way));
    const auto above = [&](std::uint32_t rank) {
        return (rank > search.first() ? 1U : 0U) + (rank > search.second() ? 1U << 16U : 0U);
    };
    std::uint32_t count = 0;
    for (std::uint32_t i = thread; i * 4 < ranks.places(); i += threads) {
        const uint4 each = four[i];
        count += above(each.x) + above(each.y) + above(each.z) + above(each.w);
    }
    return count;
}

// Some warps seek in each way, all at once.
__device__ inline void find_choices(const BlockRanks& ranks, ChoiceRoom& room) {
    const std::uint32_t threads = kLeanThreads / ranks.ways;
    const std::uint32_t way = threadIdx.x / threads;
    const float reach = way == 0 ? room.reach : std::numeric_limits<float>::infinity();
    RankSearch search(way == 0 ? room.shares.by_maximum : room.shares.by_race, room.tops[way],
                      least_rank(room.tops[way], reach));
    for (std::uint32_t turn = 0; __syncthreads_or(!search.ended()) != 0; turn ^= 1U) {
        if (!search.ended()) {
            const std::uint32_t own =
                __reduce_add_sync(kAllLanes, count_above(ranks, way, threadIdx.x % threads, threads, search));
            if (threadIdx.x % 32 == 0) atomicAdd(&room.above[turn][way], own);
        }
        if (threadIdx.x < kWays) room.above[turn ^ 1U][threadIdx.x] = 0;
        __syncthreads();
        const std::uint32_t all = room.above[turn][way];
        if (!search.ended()) search.take(all & 0xFFFFU, all >> 16U);
    }
    if (threadIdx.x % threads == 0) room.choices[way] = {search.rank(), search.ties(), 0};
    __syncthreads();
}

// By one warp: where the first of the blocks that tie end.
__device__ inline void find_tie_end(const BlockRanks& ranks, std::uint32_t way, Choice& choice) {
    std::uint32_t left = choice.ties;
    const std::uint32_t rank = choice.rank;
    for (std::uint32_t first = 0; left > 0; first += 32) {
        std::uint32_t tied = __ballot_sync(kAllLanes, ranks.of(way)[first + threadIdx.x % 32] == rank);
        const auto count = static_cast<std::uint32_t>(__popc(tied));
        if (count < left) {
            left -= count;
            continue;
        }
        for (; left > 1; --left) tied &= tied - 1;
        if (threadIdx.x % 32 == 0)
            choice.tie_end = first + static_cast<std::uint32_t>(__ffs(static_cast<int>(tied)));
        return;
    }
}

// Of a range of blocks, those of some rank or above it in one way: into the room for blocks that were found.
// Returns how many.
__device__ inline std::uint32_t list_reaching(const BlockRanks& ranks, std::uint32_t way, std::uint32_t least,
                                              const BlockRange& range, ChoiceRoom& room) {
    __syncthreads();
    if (threadIdx.x == 0) room.opened = 0;
    __syncthreads();
    for (std::uint32_t block = range.first + threadIdx.x; block < range.end; block += kLeanThreads) {
        if (ranks.of(way)[block] < least) continue;
        room.found[atomicAdd(&room.opened, 1U)] = static_cast<std::uint16_t>(block);
    }
    __syncthreads();
    return room.opened;
}

// The blocks that are chosen in some ways, in no order.
__device__ inline void gather_chosen(const BlockRanks& ranks, const BlockSpan& span, const Ways& ways,
                                     ChoiceRoom& room) {
    for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
        bool chosen = span.always_sent(block);
        for (std::uint32_t way = ways.first; way < ways.end; ++way)
            chosen = chosen || room.choices[way].has(ranks.of(way)[block], block);
        if (chosen) room.found[atomicAdd(&room.sent, 1U)] = static_cast<std::uint16_t>(block);
    }
    __syncthreads();
}

__device__ inline std::uint32_t count_below(const uint4& eight, std::uint32_t number) {
    const auto of_two = [&](std::uint32_t two) {
        return ((two & 0xFFFFU) < number ? 1U : 0U) + ((two >> 16U) < number ? 1U : 0U);
    };
    return of_two(eight.x) + of_two(eight.y) + of_two(eight.z) + of_two(eight.w);
}

// They are few: each finds its own place among them. Zeros follow to the end of 16 bytes.
__device__ inline void list_ascending(ChoiceRoom& room) {
    constexpr std::uint32_t kEach = sizeof(uint4) / sizeof(room.found[0]);
    const std::uint32_t eights = (room.sent + kEach - 1) / kEach;
    const auto* found = reinterpret_cast<const uint4*>(room.found);
    for (std::uint32_t i = threadIdx.x; i < eights * kEach; i += kLeanThreads) {
        if (i >= room.sent) {
            room.list[i] = 0;
            continue;
        }
        const std::uint16_t own = room.found[i];
        std::uint32_t before = 0;
        for (std::uint32_t other = 0; other < eights; ++other) before += count_below(found[other], own);
        room.list[before] = own;
    }
    __syncthreads();
}

// The list of what is sent, from the ranks and the largest of them: the blocks that are chosen in some ways.
// All of the block's threads see it.
__device__ inline void choose_blocks(const BlockRanks& ranks, const BlockSpan& span, const Ways& ways,
                                     ChoiceRoom& room) {
    find_choices(ranks, room);
    const std::uint32_t warp = threadIdx.x / 32;
    if ((room.choices[0].ties | room.choices[1].ties) != 0) {
        if (warp < ranks.ways) find_tie_end(ranks, warp, room.choices[warp]);
        __syncthreads();
    }
    gather_chosen(ranks, span, ways, room);
    list_ascending(room);
}

}  // namespace croupier::gpu_writer
