// What a column's block of 64 logits leaves behind: the logits, the largest of them, and sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <cstdint>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/element_codes.h"
#include "gpu_writer/head_hopper.cuh"
#include "gpu_writer/head_product.h"
#include "gpu_writer/head_wgmma.cuh"
#include "gpu_writer/lean_measure.cuh"

namespace croupier::gpu_writer::head {

constexpr std::uint32_t kWarpgroup = 128;
constexpr std::uint32_t kWarps = kWarpgroup / 32;
constexpr std::uint32_t kAll = 0xFFFFFFFF;

// Two neighbouring columns' logits of one row; the first is the lower half.
template <Dtype D>
struct PairOf;
template <>
struct PairOf<Dtype::bf16> {
    using Type = __nv_bfloat162;
    static __device__ Type rounded(float first, float second) { return __floats2bfloat162_rn(first, second); }
    static __device__ float2 values(Type pair) { return __bfloat1622float2(pair); }
};
template <>
struct PairOf<Dtype::fp16> {
    using Type = __half2;
    static __device__ Type rounded(float first, float second) { return __floats2half2_rn(first, second); }
    static __device__ float2 values(Type pair) { return __half22float2(pair); }
};
template <Dtype D>
using Pair = typename PairOf<D>::Type;

template <typename P>
__device__ std::uint32_t codes_of(P pair) {
    static_assert(sizeof(pair) == 4);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <Dtype D>
__device__ Pair<D> pair_of(std::uint32_t codes) {
    return *reinterpret_cast<const Pair<D>*>(&codes);
}
// Of the larger ones; of each pair that has a NaN the one NaN.
template <Dtype D>
__device__ std::uint32_t larger_codes(std::uint32_t a, std::uint32_t b) {
    return codes_of(__hmax2_nan(pair_of<D>(a), pair_of<D>(b)));
}

// Where a block's logits and what they leave belong.
struct BlockPlace {
    std::uint32_t block;         // of the rank's
    std::uint32_t first_row;     // within the block: the rows before belong to another rank
    std::uint32_t end_row;       // likewise behind
    std::uint32_t first_column;  // of the tile
    std::uint32_t columns;       // of the batch
    std::uint32_t first_block;   // of the rank

    __device__ bool has_row(std::uint32_t row) const { return row >= first_row && row < end_row; }
};
struct BlockTargets {
    std::uint16_t* maxima;  // [column][block]; null: not wanted
    std::uint64_t maxima_stride;
    LeanSums* sums;
    std::uint64_t sums_stride;
    std::uint32_t* floors;
    std::uint64_t logits_stride;
};

// What is known of a column beside its logits.
struct ColumnWant {
    proto::race::Key key;
    float temperature = 0.0F;
    LeanScales scales;
    bool drawn = false;  // alone, and logits are left out

    ColumnWant() = default;
    __device__ ColumnWant(const LeanWant& want, bool leaves_out)
        : key(want.key),
          temperature(want.temperature),
          scales(want),
          drawn(leaves_out && is_drawn_alone(want)) {}

    __device__ bool races() const { return temperature > 0.0F; }

    // A block whose largest logit is below it holds no winner, where the floor is such and the block begins
    // to race then: a little lower than that by more than all roundings, in the race too, are off.
    __device__ float least_logit(std::uint32_t floor, float ln_first) const {
        constexpr float kOff = 1e-5F;
        if (floor <= kEmptyRank) return -std::numeric_limits<float>::infinity();
        const float score = value_of_rank(floor);
        if (!races()) return score;
        const float off = kOff * (1.0F + fabsf(score) + fabsf(ln_first));
        return (score + ln_first - off) * temperature;
    }
    // Few tokens of a lower logit score more than the floor. Of a column that is not drawn none is looked
    // for, nor of one whose winner is not told by its logits.
    __device__ float least_raising_logit(std::uint32_t floor) const {
        constexpr float kSeldomMore = 4.0F;  // one token in fifty scores that much more than its logit
        if (!drawn || floor >= rank_of(std::numeric_limits<float>::infinity()))
            return std::numeric_limits<float>::quiet_NaN();
        if (floor <= kEmptyRank) return -FLT_MAX;
        return races() ? (value_of_rank(floor) - kSeldomMore) * temperature : value_of_rank(floor);
    }
};

// Shared memory of a warpgroup. Some columns' logits at a time, 64 ids each as eight units: unit u of column
// c stands at place u ^ c % 8, so that neither the rows of one unit nor those of one column share banks.
template <std::uint32_t kColumns>
struct BlockRoom {
    static constexpr std::uint32_t kTogether = kColumns < 32 ? kColumns : 32;
    static constexpr std::uint32_t kUnits = 8;

    uint4 units[2][kTogether][kUnits];  // by turns
    // Of the tile's columns: below the first no block's largest logit may be the winner's. From the second on
    // it may raise the floor, by the token that is noted then (-inf: none).
    float least[kColumns];
    float least_raising[kColumns];
    float raising_logits[kColumns];
    std::uint32_t raising_ids[kColumns];

    __device__ uint4& unit(std::uint32_t turn, std::uint32_t column, std::uint32_t number) {
        return units[turn][column][number ^ column % kUnits];
    }
};

// Which rows and columns of a tile a thread has (see multiply()): rows row_of_thread() and 8 more, and in
// every 8 columns two neighbours.
__device__ inline std::uint32_t row_of_thread() {
    return threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ inline std::uint32_t pair_of_thread() {
    return threadIdx.x % 4;
}

// Stores matrices of 8 rows and 8 columns that a warp holds as pairs of columns (lane l has row l / 4): each
// column's eight rows at the address of one lane, those of the first matrix at the first eight lanes'.
__device__ inline void store_turned(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b)
                 : "memory");
}
__device__ inline void store_turned(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                    std::uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// The token that a block's largest logit makes of its column's race: what it scores, as a rank.
__device__ inline std::uint32_t rank_of_score(const ColumnWant& want, float logit, std::uint32_t id) {
    namespace race = proto::race;
    if (!want.races()) return rank_of(logit + 0.0F);
    const std::uint32_t block = id / race::kBlockTokens;
    const float first = race::first_arrival(word_of_block(want.key, race::kBlockStream, block));
    const bool is_first = race::first_member(word_of_block(want.key, race::kFirstMemberStream, block)) ==
                          id % race::kBlockTokens;
    const float arrival =
        is_first ? first : race::later_arrival(first, word_of_block(want.key, race::kMemberStream, id));
    return rank_of(race::score(logit, want.temperature, race::ln(arrival)) + 0.0F);
}

// Where a warpgroup, which has a barrier of its own, leaves the blocks of its tiles.
template <Dtype D, std::uint32_t kColumns>
class BlockSinks {
  public:
    using Room = BlockRoom<kColumns>;

    __device__ BlockSinks(const BlockTargets& targets, std::uint16_t* logits, const ColumnWant* wants,
                          Room& room, std::uint32_t barrier)
        : targets_(targets), logits_(logits), wants_(wants), room_(room), barrier_(barrier) {}

    // The next tile is of other columns than the one before.
    __device__ void forget() {
        with_own([&](std::uint32_t own) { room_.raising_logits[own] = -kInfinity; });
    }
    // While the first products of a tile are made: what takes long. Of what leave() has found in the tile
    // before of the same columns, here the tokens that may raise their floors score.
    __device__ void begin(const BlockPlace& place) {
        namespace race = proto::race;
        with_own([&](std::uint32_t own) {
            const ColumnWant& want = wants_[own];
            if (!want.drawn) return;
            raise_floor(place.first_column + own, want, own);
            if (!want.races()) return;
            const std::uint32_t block = place.first_block + place.block;
            ln_first_ = race::ln(race::first_arrival(word_of_block(want.key, race::kBlockStream, block)));
        });
    }
    // While the last ones are made.
    __device__ void fetch_floors(const BlockPlace& place) {
        with_own([&](std::uint32_t own) {
            const ColumnWant& want = wants_[own];
            const std::uint32_t floor = want.drawn ? __ldcg(targets_.floors + place.first_column + own) : 0;
            room_.least[own] = want.least_logit(floor, ln_first_);
            room_.least_raising[own] = want.least_raising_logit(floor);
        });
    }
    // Behind that.
    __device__ void leave(const float (&sums)[kColumns / 2], const BlockPlace& place) {
// One place that reads: of a tile of 256 columns it would be eight.
#pragma unroll 1
        for (std::uint32_t first = 0; first < kColumns; first += Room::kTogether) {
            const std::uint32_t turn = first / Room::kTogether % 2;
#pragma unroll
            for (std::uint32_t each = 0; each < kColumns; each += Room::kTogether) {
                if (each == first) put(sums, each, turn, place);
            }
            // Who is here has read what this turn's room had before.
            synchronize_threads(barrier_, kWarpgroup);
            take(first, turn, place);
        }
        synchronize_threads(barrier_, kWarpgroup);
    }

  private:
    static constexpr float kInfinity = std::numeric_limits<float>::infinity();
    static_assert(kColumns <= kWarpgroup, "a thread has one column of its own, or none");

    template <typename Body>
    __device__ void with_own(Body body) {
        const std::uint32_t own = threadIdx.x % kWarpgroup;
        if (own < kColumns) body(own);
    }
    __device__ void raise_floor(std::uint32_t column, const ColumnWant& want, std::uint32_t own) {
        const float logit = room_.raising_logits[own];
        if (logit == -kInfinity) return;
        room_.raising_logits[own] = -kInfinity;
        atomicMax(targets_.floors + column, rank_of_score(want, logit, room_.raising_ids[own]));
    }

    __device__ void put(const float (&sums)[kColumns / 2], std::uint32_t first, std::uint32_t turn,
                        const BlockPlace& place) {
        constexpr std::uint32_t kEights = Room::kTogether / 8;
        const std::uint32_t lane = threadIdx.x % 32;
        const std::uint32_t first_unit = threadIdx.x % kWarpgroup / 32 * 2;
        const bool there[] = {place.has_row(row_of_thread()), place.has_row(row_of_thread() + 8)};
        const auto codes = [&](std::uint32_t eight, std::uint32_t half) {
            const std::uint32_t at = (first / 8 + eight) * 4 + half * 2;
            return there[half] ? codes_of(PairOf<D>::rounded(sums[at], sums[at + 1]))
                               : minus_infinity(D) * 0x10001U;
        };
        // Lane l has the address of column l % 8 of matrix l / 8: of the second eight columns the last two.
        const auto address = [&](std::uint32_t eight) {
            return shared_address(&room_.unit(turn, eight * 8 + lane % 8, first_unit + lane / 8 % 2));
        };
        if constexpr (kEights == 1) {
            store_turned(address(0), codes(0, 0), codes(0, 1));
        } else {
#pragma unroll
            for (std::uint32_t i = 0; i < kEights; i += 2) {
                store_turned(address(i + lane / 16), codes(i, 0), codes(i, 1), codes(i + 1, 0),
                             codes(i + 1, 1));
            }
        }
    }

    // Eight lanes have a column.
    __device__ void take(std::uint32_t first, std::uint32_t turn, const BlockPlace& place) {
        constexpr std::uint32_t kOfWarp = Room::kTogether / kWarps;
        constexpr std::uint32_t kAtOnce = kOfWarp < 4 ? kOfWarp : 4;
        const std::uint32_t warp = threadIdx.x % kWarpgroup / 32;
        const std::uint32_t of_warp = threadIdx.x % 32 / Room::kUnits;
#pragma unroll
        for (std::uint32_t i = 0; i < kOfWarp; i += kAtOnce) {
            // Lanes that have none look at another's.
            const bool has_column = of_warp < kAtOnce;
            const std::uint32_t own = warp * kOfWarp + i + (has_column ? of_warp : 0);
            const uint4 codes = room_.unit(turn, own, threadIdx.x % Room::kUnits);
            take_unit(codes, first + own, has_column, place);
        }
    }
    __device__ void take_unit(const uint4& codes, std::uint32_t own, bool has_column,
                              const BlockPlace& place) {
        const std::uint32_t unit = threadIdx.x % Room::kUnits;
        const std::uint32_t column = place.first_column + own;
        const bool is_there = has_column && column < place.columns;
        const std::uint32_t most = largest(codes);
        if (is_there && unit == 0 && targets_.maxima != nullptr)
            targets_.maxima[column * targets_.maxima_stride + place.block] = static_cast<std::uint16_t>(most);
        const ColumnWant& want = wants_[own];
        leave_sums(codes, value_of<D>(most), column, want.scales, is_there, place);
        if (value_of<D>(most) >= room_.least_raising[own]) note_raising(codes, value_of<D>(most), own, place);
        // A NaN is not below anything.
        if (!is_there || value_of<D>(most) < room_.least[own] || logits_ == nullptr) return;
        auto* const to = logits_ + column * targets_.logits_stride + std::uint64_t{place.block} * kBlockRows;
        reinterpret_cast<uint4*>(to)[unit] = codes;
    }

    // The code of the block's largest logit: one zero, one NaN.
    static __device__ std::uint32_t largest(const uint4& codes) {
        std::uint32_t most =
            larger_codes<D>(larger_codes<D>(codes.x, codes.y), larger_codes<D>(codes.z, codes.w));
        most = joined<Room::kUnits>(most, larger_codes<D>);
        most = larger_codes<D>(most, most >> 16U | most << 16U) & 0xFFFFU;
        return most == 0x8000U ? 0U : most;
    }

    // By all lanes of a warp. In the order of a pass over the row, so that the bits are those it has.
    __device__ void leave_sums(const uint4& codes, float most, std::uint32_t column, const LeanScales& scales,
                               bool is_there, const BlockPlace& place) {
        if (__any_sync(kAll, scales.any()) == 0) return;
        Unit<D> logits;
        *reinterpret_cast<uint4*>(logits.codes) = codes;
        const auto sum = [](float a, float b) { return a + b; };
        const float at_one = joined<Room::kUnits>(weight(logits, most, scales.at_one), sum);
        const float at_scale = joined<Room::kUnits>(weight(logits, most, scales.at_scale), sum);
        if (!is_there || !scales.any() || threadIdx.x % Room::kUnits != 0) return;
        targets_.sums[column * targets_.sums_stride + place.block] = {
            scales.at_one != 0.0F ? at_one : 0.0F, scales.at_scale != 0.0F ? at_scale : 0.0F};
    }

    // One of the block's tokens with its largest logit.
    __device__ void note_raising(const uint4& codes, float most, std::uint32_t own, const BlockPlace& place) {
        Unit<D> logits;
        *reinterpret_cast<uint4*>(logits.codes) = codes;
        std::uint32_t equals = 0;
#pragma unroll
        for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i)
            equals |= value_of<D>(logits.codes[i]) == most ? 1U << i : 0U;
        if (equals == 0) return;
        // Of several lanes any one.
        const std::uint32_t within =
            threadIdx.x % Room::kUnits * Unit<D>::kElements + static_cast<std::uint32_t>(__ffs(equals)) - 1;
        room_.raising_ids[own] = (place.first_block + place.block) * kBlockRows + within;
        room_.raising_logits[own] = most;
    }

    const BlockTargets& targets_;
    std::uint16_t* logits_;    // null: not wanted
    const ColumnWant* wants_;  // of the tile's columns
    Room& room_;
    std::uint32_t barrier_;
    float ln_first_ = 0.0F;  // of this thread's column, when the block begins to race
};

}  // namespace croupier::gpu_writer::head
