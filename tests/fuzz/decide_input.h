// A row and a request of any kind, made of a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::fuzz {

constexpr std::uint32_t kMaxVocab = 600;
constexpr std::uint32_t kMaxHistory = 48;  // of prompt and output together

struct DecideInput {
    DecideInput(const std::uint8_t* data, std::size_t size);
    DecideInput(const DecideInput&) = delete;  // `row` and `request` point into it
    DecideInput& operator=(const DecideInput&) = delete;

    std::uint32_t vocab = 1;
    std::uint8_t instruction_set = 0;

    std::vector<std::vector<std::byte>> elements;  // by slice, as large as the view says and no larger
    std::vector<std::vector<std::uint32_t>> blocks;
    std::vector<std::vector<std::uint32_t>> places;
    std::vector<std::vector<float>> maxima;
    std::vector<sampler::Slice> slices;
    sampler::RowView row;

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
    sampler::Request request;
};

}  // namespace croupier::fuzz
