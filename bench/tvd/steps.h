// The steps that the exactness of draws is judged over: real rows under every temperature, penalty and mask.
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

    // For the draw of this number; the step must outlive it.
    sampler::Request request(std::uint32_t draw) const;
};

constexpr std::uint32_t kStepHistory = 512;
constexpr std::uint32_t kStepRoom = kStepHistory + 8;

// Rows in turn; for each the temperatures 0.6 to 1.2, each with and without penalties and a mask.
JudgedStep untruncated_step(const measurement::BenchRows& rows, std::uint32_t number);
// Filters, temperatures, penalties, masks and biases at random.
JudgedStep truncated_step(const measurement::BenchRows& rows, std::uint32_t number);

}  // namespace croupier::bench
