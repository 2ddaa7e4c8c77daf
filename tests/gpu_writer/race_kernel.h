// The race of proto/race.h on a GPU, for race_test.cpp: each call enqueues one kernel on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "proto/dtype.h"
#include "proto/race.h"

namespace croupier::gpu_writer {

// Rows of logits over all ids, as they race: what the steps before the temperature leave of them.
struct RaceRows {
    const void* logits = nullptr;
    std::uint64_t row_stride = 0;  // elements
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t vocab = 0;
};

struct RaceColumn {
    proto::race::Key key;
    float temperature = 1.0F;
};

// Of a row in which no token races: all are -inf.
constexpr std::uint32_t kNoRaceWinner = 0xFFFFFFFFU;

struct RaceWinner {
    float score = 0.0F;
    std::uint32_t token = kNoRaceWinner;
};

// The logarithms of the arrivals of `count` ids from `first` on.
cudaError_t launch_race_arrivals(const proto::race::Key& key, std::uint32_t first, std::uint32_t count,
                                 float* ln_arrivals, cudaStream_t stream);

// Who wins each of `count` rows: the highest score, of equal ones the smallest id. -inf does not race, and
// NaN never wins: whoever must refuse a row that holds one asks its maximum. All pointers are of GPU memory.
cudaError_t launch_races(const RaceRows& rows, const RaceColumn* columns, std::uint32_t count,
                         RaceWinner* winners, cudaStream_t stream);

}  // namespace croupier::gpu_writer
