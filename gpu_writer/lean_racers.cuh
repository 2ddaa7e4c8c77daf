// Finds the best tokens of a column's race with all threads of a CUDA block, and what stands before the first
// of them: all blocks that may score most are opened, and what they have above the bound of the others is
// best.
#pragma once

#include <array>

#include "gpu_writer/lean_draw.cuh"
#include "gpu_writer/lean_measure.cuh"
#include "proto/racers.h"

namespace croupier::gpu_writer {

struct RacerRoom {
    // Where blocks are alike, each that is opened has a token or two above the bound.
    static constexpr std::uint32_t kMostFound = 512;

    Contender found[kMostFound];          // in no order
    std::uint32_t count;                  // also of those that find no room
    std::uint32_t bar;                    // who does not score more is not looked for
    std::uint32_t weighed[kMostWeighed];  // which racers are, and how many
    std::uint32_t weighed_count;
    double before[kMostWeighed];
    proto::Racers racers;

    // By all threads, which see it behind the next barrier.
    __device__ void begin() {
        if (threadIdx.x == 0) {
            count = 0;
            racers = {};
        }
        if (threadIdx.x < kMostWeighed) before[threadIdx.x] = 0.0;
    }
    __device__ void enter(Contender token) {
        const std::uint32_t at = atomicAdd(&count, 1U);
        if (at < kMostFound) found[at] = token;
    }
};

// What a lane looks at of a block that is opened.
constexpr std::uint32_t kRacersALane = 8;
constexpr std::uint32_t kOpeningLanes = proto::kBlockIds / kRacersALane;
constexpr std::uint32_t kOpeningGroups = kLeanThreads / kOpeningLanes;

template <proto::Dtype D>
struct RacingLogits {
    static constexpr std::uint32_t kUnits = kRacersALane / Unit<D>::kElements;
    Unit<D> units[kUnits];

    // Of the block's lanes' parts, that which begins at `within`. Behind the last block there is nothing.
    __device__ RacingLogits(const RowReader<D>& reader, std::uint32_t column, std::uint32_t block,
                            std::uint32_t within, const ColumnMask& mask) {
#pragma unroll
        for (std::uint32_t i = 0; i < kUnits; ++i) {
            const std::uint32_t at = within + i * Unit<D>::kElements;
            units[i] = reader.unit(column, block * proto::kBlockIds + at);
            if (mask.hides()) hide_masked(units[i], static_cast<std::uint32_t>(mask.from(block, at)));
        }
    }
    __device__ float at(std::uint32_t i) const {
        return value_of<D>(units[i / Unit<D>::kElements].codes[i % Unit<D>::kElements]);
    }
};

template <proto::Dtype D>
struct Racing {
    const RowReader<D>& reader;
    const LeanWant& want;
    const BlockRanks& ranks;
    ChoiceRoom& choice;
    RacerRoom& room;
    std::uint32_t column;
    std::uint32_t first_block;
    ColumnMask mask;

    // No token of a block that is not opened is above it.
    __device__ std::uint32_t unopened() const { return choice.choices[1].rank; }

    __device__ std::uint32_t block_at(std::uint32_t at, std::uint32_t listed) const {
        return at < listed ? choice.found[at] : ranks.blocks;
    }
    __device__ RacingLogits<D> logits_of(std::uint32_t block) const {
        return {reader, column, block, threadIdx.x % kOpeningLanes * kRacersALane, mask};
    }

    // Each as the race has it, where what is quick to tell leaves that open; by all lanes of a warp.
    __device__ void enter_best(const RacingLogits<D>& logits, std::uint32_t block) const {
        namespace race = proto::race;
        const FirstRacer<kOpeningLanes> first(want.key, first_block + block);
        const std::uint32_t bar = room.bar;
        const float bar_score = value_of_rank(bar);
        const float slope = 1.0F / want.temperature;
        const std::uint32_t id =
            (first_block + block) * proto::kBlockIds + threadIdx.x % kOpeningLanes * kRacersALane;
        const auto words_at = [&](std::uint32_t part) {
            return proto::randoms_at(want.key.seed, want.key.position, want.key.child, race::kMemberStream,
                                     id / kDrawTokens + part);
        };
        static_assert(kRacersALane == 2 * kDrawTokens);
        const std::array words = {words_at(0), words_at(1)};
        std::uint32_t may_be = 0;
#pragma unroll
        for (std::uint32_t i = 0; i < kRacersALane; ++i) {
            const std::uint32_t word = words[i / kDrawTokens][i % kDrawTokens];
            const float soonest = id + i == first.token ? 0.0F : least_wait(word);
            const float bound = most_score(logits.at(i) * slope, first.arrival + soonest);
            // Written so that a bound of NaN may be one, as that of -inf is, which is none.
            if (!(bound < bar_score) && logits.at(i) >= -FLT_MAX) may_be |= 1U << i;
        }
        for (; may_be != 0; may_be &= may_be - 1) {
            const auto at = static_cast<std::uint32_t>(__ffs(static_cast<int>(may_be))) - 1;
            float logit = 0.0F;
            std::uint32_t word = 0;
// Without an index that is known at run time only, which would take them to memory.
#pragma unroll
            for (std::uint32_t i = 0; i < kRacersALane; ++i) {
                if (i != at) continue;
                logit = logits.at(i);
                word = words[i / kDrawTokens][i % kDrawTokens];
            }
            if (rank_of(logit) <= kEmptyRank) continue;
            const float arrival =
                id + at == first.token ? first.arrival : race::later_arrival(first.arrival, word);
            const std::uint32_t score =
                rank_of(race::score(logit, want.temperature, race::ln(arrival)) + 0.0F);
            if (score > bar) room.enter(contender(score, id + at));
        }
    }

    // Of those that were found, the best; by one warp.
    __device__ void choose_best() const {
        const std::uint32_t found = min(room.count, copy_of(RacerRoom::kMostFound));
        const std::uint32_t lane = threadIdx.x % 32;
        Contender last = ~Contender{0};
        Contender mine = 0;
        std::uint32_t count = 0;
        for (;; ++count) {
            Contender own = 0;
            for (std::uint32_t i = lane; i < found; i += 32) {
                const Contender each = room.found[i];
                if (each < last) own = max(own, each);
            }
            last = best_of_warp(own);
            if (count == proto::kMostRacers || last == 0) break;
            if (lane == count) mine = last;
        }
        // All at once: each is far away.
        if (lane < count) {
            const std::uint32_t entry = reader.entry_at(token_of(mine) - first_block * proto::kBlockIds);
            room.racers.best[lane] = {token_of(mine), score_of(mine), value_of<D>(reader.code(column, entry)),
                                      std::numeric_limits<float>::quiet_NaN()};
        }
        if (lane != 0) return;
        const std::uint32_t best_other = max(room.bar, static_cast<std::uint32_t>(last >> 32U));
        room.racers.count = count;
        room.racers.rival =
            best_other > kEmptyRank ? value_of_rank(best_other) : -std::numeric_limits<float>::infinity();
    }

    // What stands before the racers that are weighed in canonical order, in units of the largest entry's
    // weight.
    __device__ void weigh_before(float scale) const {
        // Seen behind the barriers of list_reaching().
        if (threadIdx.x == 0) room.weighed_count = weighed_racers(room.racers, room.weighed);
        const float most = value_of_rank(choice.tops[0]);
        // The others stand before it.
        const std::uint32_t least = rank_of(room.racers.best[0].logit);
        double sums[kMostWeighed] = {};
        for (std::uint32_t first = 0; first < ranks.blocks; first += proto::kMostLeanBlocks) {
            const std::uint32_t end = min(first + proto::kMostLeanBlocks, ranks.blocks);
            const std::uint32_t reaching = list_reaching(ranks, 0, least, BlockRange{first, end}, choice);
            copy_blocks<D, kLeanThreads>(
                reader, column, reaching, [&](std::uint32_t i) { return std::uint32_t{choice.found[i]}; },
                [&](std::uint32_t i, std::uint32_t within, Unit<D> unit) {
                    if (mask.hides()) hide_masked(unit, mask.of_unit<D>(choice.found[i], within));
                    const std::uint32_t id =
                        (first_block + choice.found[i]) * proto::kBlockIds + within * Unit<D>::kElements;
                    add_before(unit, id, most, scale, sums);
                });
        }
#pragma unroll
        for (std::uint32_t k = 0; k < kMostWeighed; ++k) {
            const double all = joined<32>(sums[k], [](double a, double b) { return a + b; });
            if (threadIdx.x % 32 == 0) atomicAdd(&room.before[k], all);
        }
        __syncthreads();
        if (threadIdx.x < room.weighed_count)
            room.racers.best[room.weighed[threadIdx.x]].before = static_cast<float>(room.before[threadIdx.x]);
    }

  private:
    // Of the wait that a word makes (proto::race::exponential()): -ln(1 - u) is not below u.
    static __device__ float least_wait(std::uint32_t word) {
        return static_cast<float>(word) * proto::race::constants::kUnit;
    }
    // Above what a token scores that arrives then or later, by more than both are off: the logarithm by 2^-22
    // and as a share by 2^-22, the rest by some of a float's last bits.
    static __device__ float most_score(float tempered, float arrival) {
        constexpr float kLn2 = 0.693147182F;
        const float ln_arrival = log_to_base_two(arrival) * kLn2;
        return tempered - ln_arrival + (1e-5F + 1e-6F * (fabsf(tempered) + fabsf(ln_arrival)));
    }
    static __device__ Contender best_of_warp(Contender own) {
        const auto high = static_cast<std::uint32_t>(own >> 32U);
        const std::uint32_t best = __reduce_max_sync(kAllLanes, high);
        const std::uint32_t low =
            __reduce_max_sync(kAllLanes, high == best ? static_cast<std::uint32_t>(own) : 0);
        return Contender{best} << 32U | low;
    }
    // In double from unit to unit, so that the sum is as exact as a chunk's.
    __device__ void add_before(const Unit<D>& unit, std::uint32_t id, float most, float scale,
                               double (&sums)[kMostWeighed]) const {
        constexpr std::uint32_t kElements = Unit<D>::kElements;
        float before[kMostWeighed] = {};
        float logits[kMostWeighed];
        std::uint32_t
            equals[kMostWeighed];  // of the unit, so many stand before the racer where they are equal
#pragma unroll
        for (std::uint32_t k = 0; k < kMostWeighed; ++k) {
            const proto::Racer& racer = room.racers.best[room.weighed[k]];
            logits[k] = racer.logit;
            equals[k] = racer.token > id ? racer.token - id : 0;
        }
#pragma unroll
        for (std::uint32_t e = 0; e < kElements; ++e) {
            const float value = value_of<D>(unit.codes[e]);
            const float weight = power_of_two((value - most) * scale);
#pragma unroll
            for (std::uint32_t k = 0; k < kMostWeighed; ++k) {
                const bool stands_before = e < equals[k] ? value >= logits[k] : value > logits[k];
                if (stands_before) before[k] += weight;
            }
        }
#pragma unroll
        for (std::uint32_t k = 0; k < kMostWeighed; ++k) sums[k] += static_cast<double>(before[k]);
    }
};

// Of the blocks that are listed, all tokens above the bar.
template <proto::Dtype D>
__device__ void race_listed(const Racing<D>& racing, std::uint32_t listed) {
    const std::uint32_t group = threadIdx.x / kOpeningLanes;
    // The next ones' logits are on their way while these race.
    RacingLogits<D> next = racing.logits_of(racing.block_at(group, listed));
    for (std::uint32_t first = 0; first < listed; first += kOpeningGroups) {
        const RacingLogits<D> logits = next;
        const std::uint32_t block = racing.block_at(first + group, listed);
        next = racing.logits_of(racing.block_at(first + kOpeningGroups + group, listed));
        racing.enter_best(logits, block);
    }
    __syncthreads();
    if (threadIdx.x / 32 == 0) racing.choose_best();
    __syncthreads();
}

// Of rows that can be drawn, whose blocks were chosen. All threads see the racers behind the next barrier;
// none: what was opened has no token above the bound of the others. Spoils the room for blocks that were
// found. Not part of the kernel's own code, to which it would leave too few registers; and so all it needs is
// passed.
template <proto::Dtype D>
__device__ __noinline__ void find_racers(LeanRows rows, std::uint32_t column, LeanWant want, ColumnMask mask,
                                         ChoiceRoom* choice, RacerRoom* room) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const BlockRanks ranks(launch_memory(), rows.blocks, kWays);
    const Racing<D> racing{reader, want, ranks, *choice, *room, column, rows.first_block, mask};
    if (threadIdx.x == 0) room->bar = racing.unopened();
    const std::uint32_t listed =
        list_reaching(ranks, 1, racing.unopened() + 1, BlockRange{0, rows.blocks}, *choice);
    for (;;) {
        race_listed(racing, listed);
        if (room->count <= RacerRoom::kMostFound) break;
        // Those that are as good as the last of them are fewer, or all alike: then only those above them.
        __syncthreads();
        if (threadIdx.x == 0) {
            const std::uint32_t last = rank_of(room->racers.best[proto::kMostRacers - 1].score);
            room->count = 0;
            room->bar = last - 1 > room->bar ? last - 1 : last;
        }
        __syncthreads();
    }
    const LeanScales scales(want);
    if (scales.at_scale != 0.0F && room->racers.count > 0) racing.weigh_before(scales.at_scale);
}

}  // namespace croupier::gpu_writer
