#include "bench/shvs/paper_request.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "proto/philox.h"
#include "sampler/decide.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kHotStream = 0;
constexpr std::uint32_t kAcceptanceStream = 1;
constexpr std::uint32_t kTailStream = 2;

double value_of(std::uint16_t code) {
    return static_cast<double>(std::bit_cast<float>(std::uint32_t{code} << 16U));
}

double penalised_value(double value, const proto::SamplingParams& params, std::uint32_t said) {
    value = value > 0.0 ? value / params.repetition_penalty : value * params.repetition_penalty;
    return value - params.frequency_penalty * said - (said > 0 ? params.presence_penalty : 0.0);
}

sampler::RowView view_of(const sampler::Slice& slice) {
    return {proto::Dtype::bf16, slice.entries, sampler::kBlock, 1, 0, {&slice, 1}};
}

}  // namespace

PaperRequest::PaperRequest(const measurement::BenchRows& rows, std::uint32_t hot,
                           const proto::SamplingParams& params, std::span<const std::int32_t> history)
    : rows_(rows),
      params_(params),
      scale_(1.0 / params.temperature),
      hot_(0, hot),
      tail_(hot, std::max(rows.places() - hot, 1U)) {
    follow(hot_, history);
    follow(tail_, history);
}

void PaperRequest::follow(Part& part, std::span<const std::int32_t> history) const {
    std::map<std::uint32_t, std::uint32_t> said;
    for (std::size_t i = 0; i < history.size(); ++i) {
        const std::uint32_t place = rows_.place_of(static_cast<std::uint32_t>(history[i]));
        if (place < part.first_place || place - part.first_place >= part.workspace.vocab) continue;
        const std::uint32_t inside = place - part.first_place;
        const bool in_prompt = i < history.size() / 2;
        (in_prompt ? part.prompt : part.output).push_back(static_cast<std::int32_t>(inside));
        said[inside] += in_prompt ? 0 : 1;
    }
    for (const auto& [place, count] : said) part.penalised.push_back({place, count});
    part.state.begin(params_, {});
    part.state.follow(part.prompt, part.output);
}

sampler::Slice PaperRequest::slice_of(const Part& part, std::uint32_t row) const {
    sampler::Slice slice;
    slice.elements = rows_.row(row) + part.first_place;
    slice.entries = part.workspace.vocab;
    return slice;
}

std::uint32_t PaperRequest::draw_from(Part& part, std::uint32_t row, std::uint32_t position,
                                      std::uint32_t stream) const {
    sampler::Request request;
    request.params = &params_;
    request.max_length = kMostHistory;
    request.prompt = part.prompt;
    request.output = part.output;
    // The two parts of a decision must have different randoms.
    request.position_shift = 3 * position + stream;
    request.random =
        proto::random_at(params_.seed, sampler::random_position(request), params_.child, kHotStream);
    const sampler::Slice slice = slice_of(part, row);
    const proto::Decision decision = sampler::decide(view_of(slice), request, part.state, part.workspace);
    if (decision.error != proto::DecisionError::none) throw std::runtime_error("a row has no decision");
    return part.first_place + static_cast<std::uint32_t>(decision.token);
}

// Call after a draw from the same blocks: uses their maxima in the workspace.
PaperRequest::Weight PaperRequest::weigh_hot(std::uint32_t row) {
    const sampler::Slice slice = slice_of(hot_, row);
    const sampler::BlockedRow blocks = sampler::lay_in_blocks(view_of(slice), hot_.workspace);
    const auto maximum =
        static_cast<double>(sampler::largest_of(hot_.workspace.block_max.first(blocks.blocks)));
    return {sampler::total_weight({blocks, {}, maximum, scale_}, {}), maximum};
}

double PaperRequest::change_by_penalties(const Part& part, std::uint32_t row, double maximum) const {
    double change = 0.0;
    for (const Penalised& each : part.penalised) {
        const double value = value_of(rows_.row(row)[part.first_place + each.place]);
        change += std::exp((penalised_value(value, params_, each.said) - maximum) * scale_) -
                  std::exp((value - maximum) * scale_);
    }
    return change;
}

PaperRequest::Weight PaperRequest::tail_of(std::uint32_t row) const {
    Weight tail = {0.0, -std::numeric_limits<double>::infinity()};
    for (std::uint32_t i = tail_.first_place; i < rows_.places(); ++i)
        tail.maximum = std::max(tail.maximum, value_of(rows_.row(row)[i]));
    for (std::uint32_t i = tail_.first_place; i < rows_.places(); ++i)
        tail.mass += std::exp((value_of(rows_.row(row)[i]) - tail.maximum) * scale_);
    return tail;
}

PaperRequest::Drawn PaperRequest::draw(std::uint32_t row, const Weight& tail, std::uint32_t position) {
    const std::uint32_t candidate = draw_from(hot_, row, position, kHotStream);
    if (tail_.first_place >= rows_.places()) return {candidate, true, 1.0};
    const bool penalises = params_.repetition_penalty != 1.0 || params_.frequency_penalty != 0.0 ||
                           params_.presence_penalty != 0.0;
    Weight hot = weigh_hot(row);
    double tail_mass = tail.mass;
    if (penalises) {
        hot.mass += change_by_penalties(hot_, row, hot.maximum);
        tail_mass += change_by_penalties(tail_, row, tail.maximum);
    }
    const double ratio = tail_mass / hot.mass * std::exp((tail.maximum - hot.maximum) * scale_);
    const double alpha = 1.0 / (1.0 + ratio);
    const double uniform =
        (proto::random_at(params_.seed, position, params_.child, kAcceptanceStream) + 0.5) * 0x1p-32;
    if (uniform <= alpha) return {candidate, true, alpha};
    return {draw_from(tail_, row, position, kTailStream), false, alpha};
}

}  // namespace croupier::bench
