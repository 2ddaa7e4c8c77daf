#include <algorithm>
#include <cfloat>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lanes.cuh"
#include "gpu_writer/lean_replay.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

// Two CUDA blocks of so many fit on a multiprocessor with the registers that doubles take: 256 columns on
// most GPUs at once.
constexpr std::uint32_t kSpreadThreads = 512;
constexpr std::uint32_t kSpreadWarps = kSpreadThreads / 32;
// They are the kernel's argument, as what columns want is.
constexpr std::uint32_t kMostTogether = 512;
// Few columns would leave most of a GPU idle, and all others wait for them: so many CUDA blocks share each,
// until about so many are on their way.
constexpr std::uint32_t kMostShares = 8;
constexpr std::uint32_t kEnoughOnTheirWay = 256;
// Most steps have none, and theirs are launched all the same where a replay has to find them: as many
// as most GPUs hold at once, for any number of columns.
constexpr std::uint32_t kFoundShares = 2;
constexpr std::uint32_t kFoundTogether = 128;

constexpr std::uint32_t shares_of(std::size_t columns) {
    return std::clamp(kEnoughOnTheirWay / static_cast<std::uint32_t>(columns), 1U, kMostShares);
}

struct SpreadColumns {
    SpreadColumn each[kMostTogether];
};

// Of some entries; `most` is their largest, or NaN.
struct PartialSpread {
    proto::RowSpread sums;
    float most = -FLT_MAX;

    // The share as a double: it is made of few of many entries, and its error would be all of theirs.
    __device__ void see_from(float higher, double scale_of_two) {
        const double above = double{higher} - double{most};
        if (above > 0.0 && sums.tokens > 0.0) sums = sums.from_above(above, exp2(-above * scale_of_two));
        most = higher;
    }
    template <Dtype D>
    __device__ void take(const Unit<D>& unit, double scale_of_two) {
        const float higher = larger(most, unit.largest());
        if (higher != most) see_from(higher, scale_of_two);
        // Few enough for sums in float.
        float tokens = 0.0F;
        float distances = 0.0F;
        float squares = 0.0F;
        float weight = 0.0F;
        float moments = 0.0F;
        const auto scale = static_cast<float>(scale_of_two);
#pragma unroll
        for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i) {
            const float value = value_of<D>(unit.codes[i]);
            if (!(value >= -FLT_MAX)) continue;
            const float distance = value - most;
            const float own = power_of_two(distance * scale);
            tokens += 1.0F;
            distances += distance;
            squares += distance * distance;
            weight += own;
            // A distance beyond what float holds is -inf.
            if (own > 0.0F) moments += own * distance;
        }
        sums.add({tokens, distances, squares, weight, moments});
    }
};

// What the CUDA blocks of a column have found, and how many of them have.
struct SpreadScratch {
    std::uint32_t* arrived;  // zero between launches
    PartialSpread* found;

    static constexpr std::size_t kCounters = kMostTogether * sizeof(std::uint32_t);
    static constexpr std::size_t kBytes = kCounters + sizeof(PartialSpread) * kMostTogether * kMostShares;

    explicit SpreadScratch(void* memory)
        : arrived(static_cast<std::uint32_t*>(memory)),
          found(reinterpret_cast<PartialSpread*>(static_cast<std::byte*>(memory) + kCounters)) {}
};

__device__ double sum_of_lanes(double value) {
    return joined<32>(value, [](double a, double b) { return a + b; });
}

__device__ proto::RowSpread sum_of_lanes(const proto::RowSpread& of) {
    return {sum_of_lanes(of.tokens), sum_of_lanes(of.distances), sum_of_lanes(of.squares),
            sum_of_lanes(of.weight), sum_of_lanes(of.moments)};
}

// Of all lanes' parts; each lane has it.
__device__ PartialSpread join_lanes(PartialSpread part, double scale_of_two) {
    part.see_from(joined<32>(part.most, larger), scale_of_two);
    return {sum_of_lanes(part.sums), part.most};
}

// Of all threads' parts; the first warp has it.
__device__ PartialSpread join_parts(PartialSpread part, double scale_of_two) {
    __shared__ PartialSpread of_warps[kSpreadWarps];
    const std::uint32_t lane = threadIdx.x % 32;
    const PartialSpread of_warp = join_lanes(part, scale_of_two);
    if (lane == 0) of_warps[threadIdx.x / 32] = of_warp;
    __syncthreads();
    return join_lanes(lane < kSpreadWarps ? of_warps[lane] : PartialSpread{}, scale_of_two);
}

// What another CUDA block has stored, wherever it is cached.
__device__ PartialSpread fetched(const PartialSpread& found) {
    return {{__ldcg(&found.sums.tokens), __ldcg(&found.sums.distances), __ldcg(&found.sums.squares),
             __ldcg(&found.sums.weight), __ldcg(&found.sums.moments)},
            __ldcg(&found.most)};
}

// By one of the `shares` CUDA blocks of a column, the `place`th of those that are summed.
template <Dtype D>
__device__ void sum_part(const LeanRows& rows, const LeanTarget& target, const SpreadColumn& of,
                         std::uint32_t place, std::uint32_t shares, const SpreadScratch& scratch) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    constexpr double kLog2E = 1.4426950408889634;
    // Finite and not 0: its products with 0 and with infinity are numbers.
    const double scale_of_two = std::clamp(of.scale * kLog2E, double{FLT_MIN}, double{FLT_MAX});
    const std::uint32_t share = (rows.blocks + shares - 1) / shares;
    const std::uint32_t first = std::min(blockIdx.x * share, rows.blocks);
    const ColumnMask mask(rows, of.mask_row);
    PartialSpread part;
    copy_blocks<D, kSpreadThreads>(
        reader, of.column, std::min(share, rows.blocks - first), [=](std::uint32_t i) { return first + i; },
        [&](std::uint32_t i, std::uint32_t within, Unit<D> unit) {
            if (mask.hides()) hide_masked(unit, mask.of_unit<D>(first + i, within));
            part.take(unit, scale_of_two);
        });
    PartialSpread all = join_parts(part, scale_of_two);
    if (shares > 1) {
        PartialSpread* found = scratch.found + std::size_t{place} * kMostShares;
        if (threadIdx.x == 0) found[blockIdx.x] = all;
        if (!arrives_last(scratch.arrived + place, shares) || threadIdx.x >= 32) return;
        all = join_lanes(threadIdx.x < shares ? fetched(found[threadIdx.x]) : PartialSpread{}, scale_of_two);
    }
    if (threadIdx.x != 0) return;
    // Of a row with a NaN or +inf, and of nothing but -inf, there is none.
    if (!(all.most <= FLT_MAX)) all.sums = {};
    reinterpret_cast<proto::LeanSpread*>(target.part + target.layout.spread(of.column))->of = all.sums;
}

template <Dtype D>
__global__ void __launch_bounds__(kSpreadThreads, 2)
    sum_spreads(LeanRows rows, LeanTarget target, const __grid_constant__ SpreadColumns columns,
                SpreadScratch scratch) {
    sum_part<D>(rows, target, columns.each[blockIdx.y], blockIdx.y, gridDim.x, scratch);
}

// Of a step that a replay has found: how many they are, the launch does not know.
template <Dtype D>
__global__ void __launch_bounds__(kSpreadThreads, 2)
    sum_found(LeanRows rows, LeanTarget target, FoundStep step, SpreadScratch scratch) {
    if (step.record->slice.columns == 0) return;
    rows.masks = step.record->masks;
    target.part = step.record->part;
    for (std::uint32_t i = blockIdx.y; i < step.counts[kFoundSpreads]; i += gridDim.y) {
        const std::uint32_t column = step.spreads[i];
        const LeanWant& want = step.wants[column];
        LeanRows own = rows;
        if (!find_row<D>(own, column) && step.record->windows != 0) continue;
        // There is no place for more that are shared: a block may be several columns ahead of its neighbour.
        const std::uint32_t shares = i < kMostTogether ? gridDim.x : 1;
        if (blockIdx.x >= shares) break;
        sum_part<D>(own, target, {column, want.mask_row, want.scale}, i, shares, scratch);
        __syncthreads();
    }
}

template <Dtype D>
struct Summing {
    static void launch(const LeanRows& rows, const LeanTarget& target, std::span<const SpreadColumn> columns,
                       void* scratch, cudaStream_t stream) {
        SpreadColumns together;
        std::copy(columns.begin(), columns.end(), together.each);
        cudaLaunchConfig_t config{};
        config.gridDim = {shares_of(columns.size()), static_cast<std::uint32_t>(columns.size()), 1};
        config.blockDim = kSpreadThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, sum_spreads<D>, rows, target, together, SpreadScratch(scratch));
    }
};

template <Dtype D>
struct SummingFound {
    static void launch(const LeanRows& rows, const LeanTarget& target, const FoundStep& step, void* scratch,
                       cudaStream_t stream) {
        cudaLaunchConfig_t config{};
        config.gridDim = {kFoundShares, kFoundTogether, 1};
        config.blockDim = kSpreadThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, sum_found<D>, rows, target, step, SpreadScratch(scratch));
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        load(sum_spreads<D>, *status);
        load(sum_found<D>, *status);
    }
};

}  // namespace

cudaError_t load_spread_kernels(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

std::size_t spread_scratch_bytes() {
    return SpreadScratch::kBytes;
}

cudaError_t launch_spreads(const LeanRows& rows, const LeanTarget& target,
                           std::span<const SpreadColumn> columns, void* scratch, cudaStream_t stream) {
    // Another's error would be reported as this launch's.
    if (columns.empty()) return cudaSuccess;
    while (!columns.empty()) {
        const auto some = columns.first(std::min<std::size_t>(kMostTogether, columns.size()));
        launch_of<Summing>(rows.dtype, rows, target, some, scratch, stream);
        columns = columns.subspan(some.size());
    }
    return cudaGetLastError();
}

cudaError_t launch_found_spreads(const LeanRows& rows, const LeanTarget& target, const FoundStep& step,
                                 void* scratch, cudaStream_t stream) {
    launch_of<SummingFound>(rows.dtype, rows, target, step, scratch, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
