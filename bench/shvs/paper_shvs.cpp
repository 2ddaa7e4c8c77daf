#include "bench/shvs/paper_shvs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "proto/philox.h"
#include "sampler/decide.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kTile = 64;
constexpr std::uint32_t kHotStream = 0;
constexpr std::uint32_t kAcceptanceStream = 1;
constexpr std::uint32_t kTailStream = 2;

std::uint32_t draw_from(const sampler::Slice& slice, const proto::SamplingParams& params,
                        std::uint32_t position, std::uint32_t stream, sampler::Workspace& memory) {
    sampler::Request request;
    request.params = &params;
    request.max_length = 2;
    request.position_shift = position;
    request.random = proto::random_at(params.seed, position, params.child, stream);
    sampler::SequenceState state(slice.entries, 2);
    state.begin(params, {});
    const sampler::RowView view = {proto::Dtype::bf16, slice.entries, kTile, 1, 0, {&slice, 1}};
    const proto::Decision decision = sampler::decide(view, request, state, memory);
    if (decision.error != proto::DecisionError::none) throw std::runtime_error("a row has no decision");
    return static_cast<std::uint32_t>(decision.token);
}

// Call after a draw from the same slice: uses the maxima of its blocks.
PaperShvs::Tail weigh(const sampler::Slice& slice, double scale, sampler::Workspace& memory) {
    const sampler::RowView view = {proto::Dtype::bf16, slice.entries, kTile, 1, 0, {&slice, 1}};
    const sampler::BlockedRow blocks = sampler::lay_in_blocks(view, memory);
    const auto maximum = static_cast<double>(sampler::largest_of(memory.block_max.first(blocks.blocks)));
    return {sampler::total_weight({blocks, {}, maximum, scale}, {}), maximum};
}

}  // namespace

PaperShvs::PaperShvs(std::uint32_t vocab, std::uint32_t hot)
    : vocab_(vocab), hot_(hot), hot_memory_(hot), tail_memory_(std::max(1U, vocab - hot)) {}

PaperShvs::Tail PaperShvs::tail_of(const std::uint16_t* row, double scale) const {
    const auto value = [row](std::uint32_t i) {
        return static_cast<double>(std::bit_cast<float>(std::uint32_t{row[i]} << 16U));
    };
    Tail tail = {0.0, -std::numeric_limits<double>::infinity()};
    for (std::uint32_t i = hot_; i < vocab_; ++i) tail.maximum = std::max(tail.maximum, value(i));
    for (std::uint32_t i = hot_; i < vocab_; ++i) tail.mass += std::exp((value(i) - tail.maximum) * scale);
    return tail;
}

PaperShvs::Drawn PaperShvs::draw(const std::uint16_t* row, const Tail& tail,
                                 const proto::SamplingParams& params, std::uint32_t position) {
    const sampler::Slice hot_slice = {row, hot_, 0};
    const std::uint32_t candidate = draw_from(hot_slice, params, position, kHotStream, hot_memory_);
    if (hot_ == vocab_) return {candidate, true, 1.0};
    const double scale = 1.0 / params.temperature;
    const Tail hot = weigh(hot_slice, scale, hot_memory_);
    const double ratio = tail.mass / hot.mass * std::exp((tail.maximum - hot.maximum) * scale);
    const double alpha = 1.0 / (1.0 + ratio);
    const double uniform =
        (proto::random_at(params.seed, position, params.child, kAcceptanceStream) + 0.5) * 0x1p-32;
    if (uniform <= alpha) return {candidate, true, alpha};
    const sampler::Slice tail_slice = {row + hot_, vocab_ - hot_, 0};
    return {hot_ + draw_from(tail_slice, params, position, kTailStream, tail_memory_), false, alpha};
}

}  // namespace croupier::bench
