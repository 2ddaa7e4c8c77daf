// Random rows and requests that mix every control, every shape and the values where they are delicate.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/decide.h"

namespace croupier::sampler::test {

struct RandomCase {
    RandomCase() = default;
    RandomCase(const RandomCase&) = delete;  // `request` points into the case
    RandomCase& operator=(const RandomCase&) = delete;

    std::vector<float> logits;  // by token id
    RowShape shape;
    std::uint64_t order_seed = 0;
    proto::SamplingParams params;
    std::vector<proto::TokenBias> bias;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> allowed_ids;
    std::vector<std::int32_t> bad_words;
    std::vector<std::int32_t> breakers;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<std::uint32_t> mask;
    std::vector<std::uint32_t> hot_blocks;
    std::vector<float> ln_first_arrivals;  // where its race was prepared
    Request request;
};

// Points a new request at what the case holds; its numbers are left as they begin.
void bind_request(RandomCase& out);

void fill_case(RandomCase& out, std::uint32_t vocab, std::mt19937_64& generator);

// The case in a few words, for a failure's message.
std::string describe(const RandomCase& random_case);

}  // namespace croupier::sampler::test
