// Lists a column's best entries with all threads of a CUDA block: blocks whose largest entry is above a bar
// are opened, and what they have above it is listed.
#pragma once

#include <cstdint>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_ranks.cuh"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

struct EntryRoom {
    // Those that are found first cross the link together.
    static constexpr std::uint32_t kStaged = 256;

    alignas(16) proto::BestEntry staged[kStaged];
    std::uint32_t count;
    // How many are above the two ranks that are asked for, in this turn and the next.
    std::uint32_t above[2][2];

    // By one thread.
    __device__ void begin() {
        count = 0;
        above[0][0] = above[0][1] = 0;
    }
};

template <proto::Dtype D>
struct Listing {
    const RowReader<D>& reader;
    const BlockRanks& ranks;
    ChoiceRoom& choice;
    EntryRoom& room;
    ColumnMask mask;
    std::uint32_t column;
    std::uint32_t first_block;

    // Shows each unit of the blocks above the bar, and its first token; by all threads.
    template <typename Visit>
    __device__ void open(std::uint32_t bar, Visit visit) const {
        constexpr std::uint32_t kTogether = proto::kMostLeanBlocks;
        for (std::uint32_t first = 0; first < ranks.blocks; first += kTogether) {
            const std::uint32_t end = min(first + kTogether, ranks.blocks);
            const std::uint32_t opened = list_reaching(ranks, 0, bar + 1, BlockRange{first, end}, choice);
            copy_blocks<D, kLeanThreads>(
                reader, column, opened, [&](std::uint32_t i) { return std::uint32_t{choice.found[i]}; },
                [&](std::uint32_t i, std::uint32_t within, Unit<D> unit) {
                    if (mask.hides()) hide_masked(unit, mask.of_unit<D>(choice.found[i], within));
                    visit((first_block + choice.found[i]) * proto::kBlockIds + within * Unit<D>::kElements,
                          unit);
                });
        }
    }

    // A bit for each of its elements.
    static __device__ std::uint32_t above(const Unit<D>& unit, std::uint32_t bar) {
        std::uint32_t bits = 0;
#pragma unroll
        for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i) {
            // One zero, as with maxima.
            if (rank_of(value_of<D>(unit.codes[i]) + 0.0F) > bar) bits |= 1U << i;
        }
        return bits;
    }

    // A higher bar, above which there are not more than `most`.
    __device__ std::uint32_t raised_bar(std::uint32_t wanted, std::uint32_t most, std::uint32_t bar) const {
        RankSearch search = search_among(wanted, most, choice.tops[0], bar);
        for (std::uint32_t turn = 0; !search.ended(); turn ^= 1U) {
            std::uint32_t first = 0;
            std::uint32_t second = 0;
            open(search.first(), [&](std::uint32_t, const Unit<D>& unit) {
                first += static_cast<std::uint32_t>(__popc(above(unit, search.first())));
                second += static_cast<std::uint32_t>(__popc(above(unit, search.second())));
            });
            first = __reduce_add_sync(kAllLanes, first);
            second = __reduce_add_sync(kAllLanes, second);
            if (threadIdx.x % 32 == 0) {
                atomicAdd(&room.above[turn][0], first);
                atomicAdd(&room.above[turn][1], second);
            }
            if (threadIdx.x < 2) room.above[turn ^ 1U][threadIdx.x] = 0;
            __syncthreads();
            search.take(room.above[turn][0], room.above[turn][1]);
        }
        return search.rank();
    }

    // Stores those above the bar, `most` at the most, and counts all of them.
    __device__ void gather(std::uint32_t bar, std::uint32_t most, proto::BestEntry* to) const {
        open(bar, [&](std::uint32_t first_token, const Unit<D>& unit) {
            std::uint32_t bits = above(unit, bar);
            if (bits == 0) return;
            std::uint32_t at = atomicAdd(&room.count, static_cast<std::uint32_t>(__popc(bits)));
#pragma unroll
            for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i) {
                if ((bits >> i & 1U) == 0) continue;
                const proto::BestEntry entry{first_token + i, value_of<D>(unit.codes[i])};
                if (at < EntryRoom::kStaged) {
                    room.staged[at] = entry;
                } else if (at < most) {
                    to[at] = entry;
                }
                ++at;
            }
        });
        __syncthreads();
    }
};

// Of rows that can be drawn, whose blocks were chosen by their maxima: the list at `to`, which has room for
// so many entries. Spoils the room for blocks that were found. Not part of the kernel's own code, to which it
// would leave too few registers; and so all it needs is passed. Returns lists_reach().
template <proto::Dtype D>
__device__ __noinline__ bool list_entries(LeanRows rows, std::uint32_t column, LeanWant want, ColumnMask mask,
                                          proto::BestEntries* to, std::uint32_t most, ChoiceRoom* choice,
                                          EntryRoom* room) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const BlockRanks ranks(launch_memory(), rows.blocks, kWays);
    const Listing<D> listing{reader, ranks, *choice, *room, mask, column, rows.first_block};
    auto* const entries = reinterpret_cast<proto::BestEntry*>(to + 1);
    std::uint32_t bar = choice->choices[0].enough_above();
    listing.gather(bar, most, entries);
    if (room->count > most) {
        bar = listing.raised_bar(want.by_maximum, most, bar);
        __syncthreads();
        if (threadIdx.x == 0) room->count = 0;
        // Behind the barriers of gather().
        listing.gather(bar, most, entries);
    }
    const std::uint32_t staged = min(min(room->count, copy_of(EntryRoom::kStaged)), most);
    constexpr std::uint32_t kTogether = sizeof(uint4) / sizeof(proto::BestEntry);
    for (std::uint32_t i = threadIdx.x; i * kTogether < staged; i += kLeanThreads)
        reinterpret_cast<uint4*>(entries)[i] = reinterpret_cast<const uint4*>(room->staged)[i];
    if (threadIdx.x == 0) *to = {value_of_rank(bar), room->count};
    return lists_reach(want, choice->tops[0], bar, room->count);
}

}  // namespace croupier::gpu_writer
