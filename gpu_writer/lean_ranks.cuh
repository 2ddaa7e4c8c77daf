// Finds a column's best blocks with all threads of a CUDA block: a histogram of the ranks from the largest
// one down says in which bin the last chosen rank is, and another one divides that bin.
#pragma once

#include "gpu_writer/lean_choice.h"
#include "proto/lean_part.h"

namespace croupier::gpu_writer {

constexpr std::uint32_t kLeanThreads = 256;
constexpr std::uint32_t kLeanWarps = kLeanThreads / 32;
constexpr std::uint32_t kBinBits = 8;
constexpr std::uint32_t kBins = 1U << kBinBits;
constexpr std::uint32_t kAllLanes = 0xFFFFFFFFU;
constexpr std::uint32_t kWays = 2;  // by maximum, by race

// In one way: the blocks whose rank is above `least`, and the first `ties` of those whose rank it is.
struct Choice {
    std::uint32_t least;
    std::uint32_t ties;
    // While `least` is sought: it is `top` or below, where so many blocks are still to be chosen. Bins are
    // counted from `top` down, each of 2^shift ranks.
    std::uint32_t top;
    std::uint32_t shift;
    std::uint32_t wanted;
    std::uint32_t sought;

    // The first bins are each of one bf16, and all reach down to a quarter of the largest value: what is
    // sought is there as a rule, and few blocks share a bin, whose count would be all that they wait for.
    static constexpr std::uint32_t kFirstShift = 16;

    __device__ void seek(std::uint32_t count) {
        *this = {0xFFFFFFFFU, 0, 0, kFirstShift, count, count > 0 ? 1U : 0U};
    }
    __device__ void end(std::uint32_t found, std::uint32_t ties_of_it) {
        *this = {found, ties_of_it, 0, 0, 0, 0};
    }
    __device__ std::uint32_t bin_of(std::uint32_t rank) const {
        return rank > kEmptyRank && rank <= top ? (top - rank) >> shift : kBins;
    }
    // All bins together have `counted` blocks, fewer than are wanted.
    __device__ void go_below(std::uint32_t counted) {
        const std::uint64_t window = std::uint64_t{kBins} << shift;
        // Not more blocks than are wanted: all that are not empty.
        if (top <= kEmptyRank || window >= top - kEmptyRank) return end(kEmptyRank, 0);
        top -= static_cast<std::uint32_t>(window);
        const auto bits = static_cast<std::uint32_t>(32 - __clz(static_cast<int>(top - kEmptyRank - 1)));
        shift = bits - min(bits, kBinBits);
        wanted -= counted;
    }
    // Of the blocks in the bin `left` are to be chosen.
    __device__ void go_into(std::uint32_t bin, std::uint32_t blocks, std::uint32_t left) {
        if (left == blocks) {
            const std::uint64_t passed = (std::uint64_t{bin} + 1) << shift;
            return end(passed >= top - kEmptyRank ? kEmptyRank : top - static_cast<std::uint32_t>(passed), 0);
        }
        if (shift == 0) return end(top - bin, left);
        top -= bin << shift;
        shift -= min(shift, kBinBits);
        wanted = left;
    }
};

// In shared memory, in whole words of a bitmap: what is behind the last block has the rank of an empty one.
// Addresses are computed: arrays of them would stand in local memory.
struct BlockRanks {
    std::uint32_t* memory;
    std::uint32_t blocks;
    std::uint32_t words;  // of a bitmap
    std::uint32_t ways;   // those that are ranked: the first ones

    static constexpr std::uint32_t kWordBlocks = 32;

    __device__ BlockRanks(void* at, std::uint32_t count, std::uint32_t ranked)
        : memory(static_cast<std::uint32_t*>(at)),
          blocks(count),
          words((count + kWordBlocks - 1) / kWordBlocks),
          ways(ranked) {}

    __device__ std::uint32_t places() const { return words * kWordBlocks; }
    __device__ std::uint32_t* of(std::uint32_t way) const { return memory + way * places(); }
    // Bitmaps: what is chosen, and what is tied with a choice's `least`, where it has ties.
    __device__ std::uint32_t* chosen() const { return memory + kWays * places(); }
    __device__ std::uint32_t* tied(std::uint32_t way) const { return chosen() + (1 + way) * words; }
};
inline std::size_t rank_bytes(std::uint32_t blocks) {
    const std::size_t words = (blocks + BlockRanks::kWordBlocks - 1) / BlockRanks::kWordBlocks;
    return words * (kWays * BlockRanks::kWordBlocks + 1 + kWays) * sizeof(std::uint32_t);
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
    Choice choices[kWays];
    alignas(16) std::uint32_t bins[kWays][kBins];
    std::uint32_t sent;
    alignas(16) std::uint16_t list[proto::kMostLeanBlocks];

    // By all threads; they see it behind the next barrier.
    __device__ void clear_bins() {
        for (std::uint32_t i = threadIdx.x; i < kWays * kBins; i += kLeanThreads)
            bins[i / kBins][i % kBins] = 0;
    }
};

// The largest rank of each way, from where its choice is sought.
__device__ inline void find_tops(const BlockRanks& ranks, ChoiceRoom& room) {
    for (std::uint32_t way = 0; way < ranks.ways; ++way) {
        std::uint32_t top = 0;
        const auto* four = reinterpret_cast<const uint4*>(ranks.of(way));
        for (std::uint32_t i = threadIdx.x; i * 4 < ranks.places(); i += kLeanThreads) {
            const uint4 each = four[i];
            top = max(max(top, max(each.x, each.y)), max(each.z, each.w));
        }
        top = __reduce_max_sync(kAllLanes, top);
        if (threadIdx.x % 32 == 0) atomicMax(&room.choices[way].top, top);
    }
    __syncthreads();
}

// Of this lane and those before it; all lanes of a warp take part.
__device__ inline std::uint32_t sum_so_far(std::uint32_t value) {
    for (std::uint32_t apart = 1; apart < 32; apart *= 2) {
        const std::uint32_t other = __shfl_up_sync(kAllLanes, value, apart);
        if (threadIdx.x % 32 >= apart) value += other;
    }
    return value;
}

// By one warp: the bin in which the choice's last rank is.
__device__ inline void find_bin(Choice& choice, const std::uint32_t* bins) {
    constexpr std::uint32_t kEach = kBins / 32;
    if (choice.sought == 0) return;
    const std::uint32_t first = threadIdx.x % 32 * kEach;
    std::uint32_t counts[kEach];
    std::uint32_t own = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < kEach; ++i) own += counts[i] = bins[first + i];
    const std::uint32_t until = sum_so_far(own);
    const std::uint32_t all = __shfl_sync(kAllLanes, until, 31);
    const std::uint32_t wanted = choice.wanted;
    __syncwarp();
    if (all < wanted) {
        if (threadIdx.x % 32 == 0) choice.go_below(all);
        return;
    }
    if (until - own >= wanted || until < wanted) return;
    std::uint32_t left = wanted - (until - own);
#pragma unroll
    for (std::uint32_t i = 0; i < kEach; ++i) {
        if (left <= counts[i]) return choice.go_into(first + i, counts[i], left);
        left -= counts[i];
    }
}

// The bins are clear before.
__device__ inline void find_choices(const BlockRanks& ranks, ChoiceRoom& room) {
    while ((room.choices[0].sought | room.choices[1].sought) != 0) {
        for (std::uint32_t way = 0; way < ranks.ways; ++way) {
            const Choice choice = room.choices[way];
            if (choice.sought == 0) continue;
            for (std::uint32_t block = threadIdx.x; block < ranks.blocks; block += kLeanThreads) {
                const std::uint32_t bin = choice.bin_of(ranks.of(way)[block]);
                if (bin < kBins) atomicAdd(&room.bins[way][bin], 1U);
            }
        }
        __syncthreads();
        const std::uint32_t way = threadIdx.x / 32;
        if (way < ranks.ways) find_bin(room.choices[way], room.bins[way]);
        __syncthreads();
        if ((room.choices[0].sought | room.choices[1].sought) == 0) return;
        room.clear_bins();
        __syncthreads();
    }
}

__device__ inline void mark_blocks(const BlockRanks& ranks, const BlockSpan& span, const ChoiceRoom& room) {
    for (std::uint32_t word = threadIdx.x / 32; word < ranks.words; word += kLeanWarps) {
        const std::uint32_t block = word * BlockRanks::kWordBlocks + threadIdx.x % 32;
        bool chosen = span.always_sent(block);
        for (std::uint32_t way = 0; way < ranks.ways; ++way) {
            const Choice& choice = room.choices[way];
            const std::uint32_t rank = ranks.of(way)[block];
            chosen = chosen || rank > choice.least;
            if (choice.ties == 0) continue;
            const std::uint32_t tied = __ballot_sync(kAllLanes, rank == choice.least);
            if (threadIdx.x % 32 == 0) ranks.tied(way)[word] = tied;
        }
        const std::uint32_t bits = __ballot_sync(kAllLanes, chosen);
        if (threadIdx.x % 32 == 0) ranks.chosen()[word] = bits;
    }
}

// A lane's words of a bitmap, which stand side by side.
struct LaneWords {
    std::uint32_t first;
    std::uint32_t end;

    __device__ explicit LaneWords(std::uint32_t words) {
        const std::uint32_t each = (words + 31) / 32;
        first = min(threadIdx.x % 32 * each, words);
        end = min(first + each, words);
    }
    __device__ std::uint32_t count(const std::uint32_t* bitmap) const {
        std::uint32_t bits = 0;
        for (std::uint32_t word = first; word < end; ++word) {
            bits += static_cast<std::uint32_t>(__popc(bitmap[word]));
        }
        return bits;
    }
};

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
    if (ties == 0) return;
    const LaneWords words(ranks.words);
    const std::uint32_t own = words.count(ranks.tied(way));
    std::uint32_t left = ties - min(ties, sum_so_far(own) - own);
    for (std::uint32_t word = words.first; word < words.end && left > 0; ++word) {
        const std::uint32_t bits = ranks.tied(way)[word];
        const std::uint32_t taken = min(static_cast<std::uint32_t>(__popc(bits)), left);
        // The other way's ties are in the same words.
        if (taken > 0) atomicOr(ranks.chosen() + word, lowest_bits(bits, taken));
        left -= taken;
    }
}

// By one warp: the chosen blocks, ascending. Zeros follow them to the end of 16 bytes.
__device__ inline void list_chosen(const BlockRanks& ranks, ChoiceRoom& room) {
    const LaneWords words(ranks.words);
    const std::uint32_t own = words.count(ranks.chosen());
    const std::uint32_t until = sum_so_far(own);
    std::uint32_t at = until - own;
    for (std::uint32_t word = words.first; word < words.end; ++word) {
        for (std::uint32_t bits = ranks.chosen()[word]; bits != 0; bits &= bits - 1) {
            room.list[at++] =
                static_cast<std::uint16_t>(word * BlockRanks::kWordBlocks +
                                           static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1);
        }
    }
    const std::uint32_t listed = __shfl_sync(kAllLanes, until, 31);
    const std::uint32_t behind = listed + threadIdx.x % 32;
    if (behind < (listed + 7) / 8 * 8) room.list[behind] = 0;
    if (threadIdx.x % 32 == 0) room.sent = listed;
}

// The list of what is sent, from the ranks and the largest of them. All of the block's threads see it.
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
