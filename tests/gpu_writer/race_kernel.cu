// Compiled with the flags of the lean kernels (cmake/Cuda.cmake): the formulas are proto/race.h's, and nvcc
// must round each of their operations as the CPU's compiler does.
#include <limits>

#include "gpu_writer/slice_tiles.cuh"
#include "tests/gpu_writer/race_kernel.h"

namespace croupier::gpu_writer {
namespace {

namespace race = proto::race;
using proto::Dtype;

constexpr std::uint32_t kArrivalThreads = 256;
constexpr std::uint32_t kRaceThreads = 1024;
constexpr float kNotRacing = -std::numeric_limits<float>::infinity();

__global__ void __launch_bounds__(kArrivalThreads)
    make_arrivals(race::Key key, std::uint32_t first, std::uint32_t count, float* ln_arrivals) {
    const std::uint64_t i = std::uint64_t{blockIdx.x} * kArrivalThreads + threadIdx.x;
    if (i >= count) return;
    ln_arrivals[i] = race::ln(race::arrival(key, first + static_cast<std::uint32_t>(i)));
}

__device__ bool beats(const RaceWinner& one, const RaceWinner& other) {
    return one.score > other.score || (one.score == other.score && one.token < other.token);
}

// A block a row.
template <Dtype D>
__global__ void __launch_bounds__(kRaceThreads)
    run_races(RaceRows rows, const RaceColumn* columns, RaceWinner* winners) {
    using Code = typename Element<D>::Code;
    __shared__ float scores[kRaceThreads];
    __shared__ std::uint32_t tokens[kRaceThreads];
    const RaceColumn column = columns[blockIdx.x];
    const Code* row = static_cast<const Code*>(rows.logits) + blockIdx.x * rows.row_stride;
    RaceWinner best{kNotRacing, kNoRaceWinner};
    for (std::uint32_t token = threadIdx.x; token < rows.vocab; token += kRaceThreads) {
        const float logit = value_of<D>(row[token]);
        if (logit == kNotRacing) continue;
        const float ln_arrival = race::ln(race::arrival(column.key, token));
        const RaceWinner entrant{race::score(logit, column.temperature, ln_arrival), token};
        if (beats(entrant, best)) best = entrant;
    }
    scores[threadIdx.x] = best.score;
    tokens[threadIdx.x] = best.token;
    for (std::uint32_t half = kRaceThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        const RaceWinner other{scores[threadIdx.x + half], tokens[threadIdx.x + half]};
        if (!beats(other, {scores[threadIdx.x], tokens[threadIdx.x]})) continue;
        scores[threadIdx.x] = other.score;
        tokens[threadIdx.x] = other.token;
    }
    if (threadIdx.x == 0) winners[blockIdx.x] = {scores[0], tokens[0]};
}

template <Dtype D>
struct Races {
    static void launch(const RaceRows& rows, const RaceColumn* columns, std::uint32_t count,
                       RaceWinner* winners, cudaStream_t stream) {
        run_races<D><<<count, kRaceThreads, 0, stream>>>(rows, columns, winners);
    }
};

}  // namespace

cudaError_t launch_race_arrivals(const race::Key& key, std::uint32_t first, std::uint32_t count,
                                 float* ln_arrivals, cudaStream_t stream) {
    const std::uint32_t blocks = count / kArrivalThreads + (count % kArrivalThreads != 0 ? 1 : 0);
    make_arrivals<<<blocks, kArrivalThreads, 0, stream>>>(key, first, count, ln_arrivals);
    return cudaGetLastError();
}

cudaError_t launch_races(const RaceRows& rows, const RaceColumn* columns, std::uint32_t count,
                         RaceWinner* winners, cudaStream_t stream) {
    launch_of<Races>(rows.dtype, rows, columns, count, winners, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
