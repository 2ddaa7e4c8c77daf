// Steps for tests of exactness: rows with temperatures, penalties and masks.
#pragma once

#include <cstdint>
#include <vector>

#include "measurement/bench_rows.h"
#include "sampler/request.h"

namespace croupier::bench {

struct JudgedStep {
    std::uint32_t row = 0;
    proto::SamplingParams params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<std::uint32_t> mask;
    std::vector<proto::TokenBias> bias;

    // The request of draw number `draw`. The step must outlive it.
    sampler::Request request(std::uint32_t draw) const;
};

constexpr std::uint32_t kStepHistory = 512;
constexpr std::uint32_t kStepRoom = kStepHistory + 8;

// Cycles through the rows, with temperatures 0.6 to 1.2, with and without penalties and a mask.
JudgedStep untruncated_step(const measurement::BenchRows& rows, std::uint32_t number);
// Random filters, temperatures, penalties, masks and biases.
JudgedStep truncated_step(const measurement::BenchRows& rows, std::uint32_t number);

}  // namespace croupier::bench
