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

// Of a matrix of 8 rows and 8 columns that a warp holds as pairs of columns (lane l has row l / 4): pairs of
// rows (lane l has column l / 4).
__device__ inline std::uint32_t turned(std::uint32_t pair) {
    std::uint32_t to;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair));
    return to;
}

// Where a block's logits and what they leave belong.
struct BlockPlace {
    std::uint32_t block;         // of the rank's
    std::uint32_t first_row;     // within the block: the rows before belong to another rank
    std::uint32_t end_row;       // likewise behind
    std::uint32_t first_column;  // of the tile
    std::uint32_t columns;       // of the batch

    __device__ bool has_row(std::uint32_t row) const { return row >= first_row && row < end_row; }
    __device__ bool is_whole() const { return first_row == 0 && end_row == kBlockRows; }
};
struct BlockTargets {
    std::uint16_t* maxima;  // [column][block]; null: not wanted
    std::uint64_t maxima_stride;
    BlockSums* sums;  // likewise
    std::uint64_t sums_stride;
    const ColumnScales* scales;
    std::uint16_t* logits;  // [column][entry]; null: not wanted
    std::uint64_t logits_stride;
    std::uint32_t lead;
    bool by_fours;  // entries that begin at a multiple of four are stored four at a time
};

// Shared memory of a warpgroup.
template <std::uint32_t kColumns>
struct BlockRoom {
    std::uint32_t maxima[kWarps][kColumns / 2];  // pairs, of 16 rows
    std::uint32_t largest[kColumns / 2];         // pairs, of the block
    BlockSums sums[kWarps][kColumns];
};

// Which rows and columns of a tile a thread has (see multiply()): rows row_of_thread() and 8 more, and in
// every 8 columns two neighbours.
__device__ inline std::uint32_t row_of_thread() {
    return threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ inline std::uint32_t pair_of_thread() {
    return threadIdx.x % 4;
}

__device__ inline std::uint32_t of_other_lane(std::uint32_t value, std::uint32_t apart) {
    return __shfl_xor_sync(kAll, value, static_cast<int>(apart));
}
__device__ inline float of_other_lane(float value, std::uint32_t apart) {
    return __shfl_xor_sync(kAll, value, static_cast<int>(apart));
}

// Of the values that this lane holds and that another one so far apart holds for other rows, each keeps half.
// A last one both keep.
template <std::uint32_t kHeld, std::uint32_t kApart, typename T, std::uint32_t kOwn, typename Join>
__device__ void halve(T (&own)[kOwn], Join join) {
    if constexpr (kHeld == 1) {
        own[0] = join(own[0], of_other_lane(own[0], kApart));
    } else {
        constexpr std::uint32_t kKept = kHeld / 2;
        const bool upper = threadIdx.x / kApart % 2 != 0;
#pragma unroll
        for (std::uint32_t i = 0; i < kKept; ++i) {
            const T sent = upper ? own[i] : own[i + kKept];
            const T kept = upper ? own[i + kKept] : own[i];
            own[i] = join(kept, of_other_lane(sent, kApart));
        }
    }
}
// Joins the 8 lanes of a warp that hold the same columns. own[0] is value number kept_value<kOwn>() then, in
// the lanes for which keeps_value<kOwn>(); the others have equals.
template <typename T, std::uint32_t kOwn, typename Join>
__device__ void join_lanes(T (&own)[kOwn], Join join) {
    halve<kOwn, 16>(own, join);
    halve<(kOwn > 2 ? kOwn / 2 : 1), 8>(own, join);
    halve<(kOwn > 4 ? kOwn / 4 : 1), 4>(own, join);
}
template <std::uint32_t kOwn>
__device__ std::uint32_t kept_value() {
    return threadIdx.x % 32 / 4 / (8 / kOwn);
}
template <std::uint32_t kOwn>
__device__ bool keeps_value() {
    return threadIdx.x % 32 / 4 % (8 / kOwn) == 0;
}

// The logits of this thread: [pair of every 8 columns][row, 8 rows on].
template <Dtype D, std::uint32_t kColumns>
struct ThreadLogits {
    static constexpr std::uint32_t kPairs = kColumns / 8;
    // So many pairs of columns are joined at once.
    static constexpr std::uint32_t kTogether = kPairs < 4 ? kPairs : 4;
    static constexpr std::uint32_t kGroups = kPairs / kTogether;

    Pair<D> pairs[kPairs][2];

    __device__ ThreadLogits(const float (&sums)[kColumns / 2], const BlockPlace& place) {
#pragma unroll
        for (std::uint32_t i = 0; i < kPairs; ++i) {
#pragma unroll
            for (std::uint32_t half = 0; half < 2; ++half) {
                pairs[i][half] = PairOf<D>::rounded(sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]);
            }
        }
        if (place.is_whole()) return;
#pragma unroll
        for (std::uint32_t half = 0; half < 2; ++half) {
            if (place.has_row(row_of_thread() + half * 8)) continue;
#pragma unroll
            for (std::uint32_t i = 0; i < kPairs; ++i)
                pairs[i][half] = pair_of<D>(minus_infinity(D) * 0x10001U);
        }
    }

    __device__ void store(const BlockPlace& place, const BlockTargets& targets, std::uint16_t* logits) const {
        if (targets.by_fours && place.is_whole()) return store_fours(place, targets, logits);
#pragma unroll
        for (std::uint32_t half = 0; half < 2; ++half) {
            const std::uint32_t row = row_of_thread() + half * 8;
            if (!place.has_row(row)) continue;
            std::uint16_t* to = logits + std::uint64_t{place.block} * kBlockRows + row - targets.lead;
#pragma unroll
            for (std::uint32_t i = 0; i < kPairs; ++i) {
                const std::uint32_t column = place.first_column + i * 8 + pair_of_thread() * 2;
                const std::uint32_t codes = codes_of(pairs[i][half]);
                if (column < place.columns)
                    to[column * targets.logits_stride] = static_cast<std::uint16_t>(codes);
                if (column + 1 < place.columns)
                    to[(column + 1) * targets.logits_stride] = static_cast<std::uint16_t>(codes >> 16U);
            }
        }
    }

    // Four lanes have 16 rows of one of 8 columns, and store them side by side.
    __device__ void store_fours(const BlockPlace& place, const BlockTargets& targets,
                                std::uint16_t* logits) const {
        const std::uint32_t lane = threadIdx.x % 32;
        const std::uint32_t quarter = lane % 4;
        const std::uint32_t row = threadIdx.x % kWarpgroup / 32 * 16 + quarter * 4;
        std::uint16_t* to = logits + std::uint64_t{place.block} * kBlockRows + row - targets.lead;
        // Of the 8 words that the four lanes hold, each takes two neighbours.
        const int first = static_cast<int>(lane / 4 * 4 + quarter * 2 % 4);
#pragma unroll
        for (std::uint32_t i = 0; i < kPairs; ++i) {
            const std::uint32_t upper = turned(codes_of(pairs[i][0]));
            const std::uint32_t lower = turned(codes_of(pairs[i][1]));
            uint2 fours;
            fours.x = __shfl_sync(kAll, upper, first);
            fours.y = __shfl_sync(kAll, upper, first + 1);
            const std::uint32_t x = __shfl_sync(kAll, lower, first);
            const std::uint32_t y = __shfl_sync(kAll, lower, first + 1);
            if (quarter >= 2) fours = {x, y};
            const std::uint32_t column = place.first_column + i * 8 + lane / 4;
            if (column < place.columns)
                *reinterpret_cast<uint2*>(to + column * targets.logits_stride) = fours;
        }
    }

    __device__ void leave_maxima(std::uint32_t (&of_warp)[kColumns / 2]) const {
#pragma unroll
        for (std::uint32_t group = 0; group < kGroups; ++group) {
            std::uint32_t own[kTogether];
#pragma unroll
            for (std::uint32_t i = 0; i < kTogether; ++i) {
                const auto& rows = pairs[group * kTogether + i];
                own[i] = codes_of(__hmax2_nan(rows[0], rows[1]));
            }
            join_lanes(own, larger_codes<D>);
            if (keeps_value<kTogether>())
                of_warp[(group * kTogether + kept_value<kTogether>()) * 4 + pair_of_thread()] = own[0];
        }
    }

    __device__ void leave_sums(const std::uint32_t (&largest)[kColumns / 2], const BlockPlace& place,
                               const ColumnScales* scales, BlockSums (&of_warp)[kColumns]) const {
#pragma unroll
        for (std::uint32_t group = 0; group < kGroups; ++group) {
            constexpr std::uint32_t kOwn = kTogether * 2;
            float at_one[kOwn];
            float at_scale[kOwn];
#pragma unroll
            for (std::uint32_t i = 0; i < kOwn; ++i) {
                const std::uint32_t pair = group * kTogether + i / 2;
                const auto value = [i](Pair<D> of) {
                    return i % 2 == 0 ? PairOf<D>::values(of).x : PairOf<D>::values(of).y;
                };
                // Where all are -inf, they weigh nothing.
                const float most = fmaxf(value(pair_of<D>(largest[pair * 4 + pair_of_thread()])), -FLT_MAX);
                const float first = value(pairs[pair][0]) - most;
                const float second = value(pairs[pair][1]) - most;
                const std::uint32_t column = place.first_column + pair * 8 + pair_of_thread() * 2 + i % 2;
                const ColumnScales scale = column < place.columns ? scales[column] : ColumnScales{};
                at_one[i] = power_of_two(first * scale.at_one) + power_of_two(second * scale.at_one);
                at_scale[i] = power_of_two(first * scale.at_scale) + power_of_two(second * scale.at_scale);
            }
            const auto add = [](float a, float b) { return a + b; };
            join_lanes(at_one, add);
            join_lanes(at_scale, add);
            const std::uint32_t kept = kept_value<kOwn>();
            if (keeps_value<kOwn>())
                of_warp[(group * kTogether + kept / 2) * 8 + pair_of_thread() * 2 + kept % 2] = {at_one[0],
                                                                                                 at_scale[0]};
        }
    }
};

template <std::uint32_t kColumns>
__device__ void store_sums(const BlockPlace& place, const BlockTargets& targets,
                           const BlockRoom<kColumns>& room) {
    for (std::uint32_t own = threadIdx.x % kWarpgroup; own < kColumns; own += kWarpgroup) {
        const std::uint32_t column = place.first_column + own;
        if (column >= place.columns) return;
        const auto sum = [&](float BlockSums::*of) {
            return (room.sums[0][own].*of + room.sums[1][own].*of) +
                   (room.sums[2][own].*of + room.sums[3][own].*of);
        };
        targets.sums[column * targets.sums_stride + place.block] = {sum(&BlockSums::at_one),
                                                                    sum(&BlockSums::at_scale)};
    }
}

__device__ inline void store_maximum(const BlockPlace& place, const BlockTargets& targets,
                                     std::uint32_t column, std::uint32_t code) {
    if (column >= place.columns) return;
    // One zero.
    targets.maxima[column * targets.maxima_stride + place.block] =
        static_cast<std::uint16_t>(code == 0x8000U ? 0U : code);
}

// By a warpgroup with a barrier of its own.
template <Dtype D, std::uint32_t kColumns>
__device__ void leave_block(const float (&sums)[kColumns / 2], const BlockPlace& place,
                            const BlockTargets& targets, std::uint16_t* to, BlockRoom<kColumns>& room,
                            std::uint32_t barrier) {
    const ThreadLogits<D, kColumns> logits(sums, place);
    if (to != nullptr) logits.store(place, targets, to);
    if (targets.maxima == nullptr) return;
    const std::uint32_t thread = threadIdx.x % kWarpgroup;
    const std::uint32_t warp = thread / 32;
    logits.leave_maxima(room.maxima[warp]);
    synchronize_threads(barrier, kWarpgroup);
    if (thread < kColumns / 2) {
        const std::uint32_t largest =
            larger_codes<D>(larger_codes<D>(room.maxima[0][thread], room.maxima[1][thread]),
                            larger_codes<D>(room.maxima[2][thread], room.maxima[3][thread]));
        room.largest[thread] = largest;
        const std::uint32_t column = place.first_column + thread * 2;
        store_maximum(place, targets, column, largest & 0xFFFFU);
        store_maximum(place, targets, column + 1, largest >> 16U);
    }
    // Who goes on to the next block writes over what others read.
    synchronize_threads(barrier, kWarpgroup);
    if (targets.sums == nullptr) return;
    logits.leave_sums(room.largest, place, targets.scales, room.sums[warp]);
    synchronize_threads(barrier, kWarpgroup);
    store_sums(place, targets, room);
    synchronize_threads(barrier, kWarpgroup);
}

}  // namespace croupier::gpu_writer::head
