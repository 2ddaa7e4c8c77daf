#include <algorithm>
#include <cfloat>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/lanes.cuh"
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

struct SpreadColumns {
    SpreadColumn each[kMostTogether];
};

// Of some entries; `most` is their largest, or NaN.
struct PartialSpread {
    proto::RowSpread sums;
    float most = -FLT_MAX;

    // The share as a double: it is made of few of many entries, and its error would be all of theirs.
    __device__ void see_from(float above, double scale_of_two) {
        const double by = double{most} - double{above};
        if (by < 0.0 && sums.tokens > 0.0) sums = sums.from_above(by, exp2(by * scale_of_two));
        most = above;
    }
    template <Dtype D>
    __device__ void take(const Unit<D>& unit, double scale_of_two) {
        const float above = larger(most, unit.largest());
        if (above != most) see_from(above, scale_of_two);
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

__device__ double sum_of_lanes(double value) {
    return joined<32>(value, [](double a, double b) { return a + b; });
}

__device__ proto::RowSpread sum_of_lanes(const proto::RowSpread& of) {
    return {sum_of_lanes(of.tokens), sum_of_lanes(of.distances), sum_of_lanes(of.squares),
            sum_of_lanes(of.weight), sum_of_lanes(of.moments)};
}

// Of all threads' parts; the first thread has it. Without tokens: an entry is NaN or +inf.
__device__ proto::RowSpread join_parts(PartialSpread part, double scale_of_two) {
    __shared__ float largest[kSpreadWarps];
    __shared__ proto::RowSpread of_warps[kSpreadWarps];
    const std::uint32_t lane = threadIdx.x % 32;
    const float of_warp = joined<32>(part.most, larger);
    if (lane == 0) largest[threadIdx.x / 32] = of_warp;
    __syncthreads();
    const float most = joined<32>(lane < kSpreadWarps ? largest[lane] : -FLT_MAX, larger);
    part.see_from(most, scale_of_two);
    const proto::RowSpread sums = sum_of_lanes(part.sums);
    if (lane == 0) of_warps[threadIdx.x / 32] = sums;
    __syncthreads();
    const proto::RowSpread all = sum_of_lanes(lane < kSpreadWarps ? of_warps[lane] : proto::RowSpread{});
    return most <= FLT_MAX ? all : proto::RowSpread{};
}

template <Dtype D>
__global__ void __launch_bounds__(kSpreadThreads, 2)
    sum_spreads(LeanRows rows, LeanTarget target, const __grid_constant__ SpreadColumns columns) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const SpreadColumn& of = columns.each[blockIdx.y];
    constexpr double kLog2E = 1.4426950408889634;
    // Finite and not 0: its products with 0 and with infinity are numbers.
    const double scale_of_two = std::clamp(of.scale * kLog2E, double{FLT_MIN}, double{FLT_MAX});
    PartialSpread part;
    copy_blocks<D, kSpreadThreads>(
        reader, of.column, rows.blocks, [](std::uint32_t block) { return block; },
        [&](std::uint32_t, std::uint32_t, const Unit<D>& unit) { part.take(unit, scale_of_two); });
    const proto::RowSpread all = join_parts(part, scale_of_two);
    if (threadIdx.x == 0) {
        reinterpret_cast<proto::LeanSpread*>(target.part + target.layout.spread(of.column))->of = all;
    }
}

template <Dtype D>
struct Summing {
    static void launch(const LeanRows& rows, const LeanTarget& target, std::span<const SpreadColumn> columns,
                       cudaStream_t stream) {
        SpreadColumns together;
        std::copy(columns.begin(), columns.end(), together.each);
        cudaLaunchConfig_t config{};
        config.gridDim = {1, static_cast<std::uint32_t>(columns.size()), 1};
        config.blockDim = kSpreadThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, sum_spreads<D>, rows, target, together);
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        cudaFuncAttributes attributes;
        *status = cudaFuncGetAttributes(&attributes, sum_spreads<D>);
    }
};

}  // namespace

cudaError_t load_spread_kernel(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

cudaError_t launch_spreads(const LeanRows& rows, const LeanTarget& target,
                           std::span<const SpreadColumn> columns, cudaStream_t stream) {
    while (!columns.empty()) {
        const auto some = columns.first(std::min<std::size_t>(kMostTogether, columns.size()));
        launch_of<Summing>(rows.dtype, rows, target, some, stream);
        columns = columns.subspan(some.size());
    }
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
