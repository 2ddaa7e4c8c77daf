// What is asked of a decision, and what is answered beside the decision itself.
#pragma once

#include <cstdint>
#include <span>

#include "proto/decision.h"
#include "proto/race.h"
#include "proto/sampling.h"

namespace croupier::sampler {

// Several lists of token ids in one: each list's length, then its ids.
using TokenLists = std::span<const std::int32_t>;

// The logarithms of a race's first arrivals, by block, made before its row was there. Empty: they were not.
struct PreparedRace {
    proto::race::Key key;
    std::span<const float> ln_first;
};

struct Request {
    const proto::SamplingParams* params = nullptr;
    std::span<const proto::TokenBias> bias;
    std::span<const std::int32_t> stop_ids;
    std::span<const std::int32_t> allowed_ids;  // empty: all allowed
    TokenLists bad_words;
    TokenLists dry_breakers;
    std::span<const std::int32_t> prompt;
    std::span<const std::int32_t> output;  // its length is the decision's position
    std::span<const std::uint32_t> mask;   // 1 = allowed, least significant bit first; empty: all allowed
    std::uint32_t max_length = 0;          // prompt and output may not grow past this
    std::uint32_t random = 0;              // stream 0 at random_position() (proto/philox.h)
    // The blocks of 64 ids that are proposed token by token in an untruncated draw (docs/decisions/0007), a
    // set in this order; empty: the row chooses the blocks.
    std::span<const std::uint32_t> hot_blocks;
    std::uint32_t position_shift = 0;  // the randoms' position is the token's index plus this
    proto::Feedback feedback;          // what the sequence's previous decision left
    PreparedRace prepared;             // without effect where it is another race's
    bool wants_support = false;        // answer every survivor, however few the parameters ask for
};

// Where the streams of randoms stand: the index of the token that is decided in prompt and output together.
constexpr std::uint32_t random_position(const Request& request) {
    return static_cast<std::uint32_t>(request.prompt.size() + request.output.size()) + request.position_shift;
}

using proto::RankedLogprob;
using proto::Survivor;

// Whether the answer has tokens that were left to draw from.
constexpr bool wants_support(const proto::SamplingParams& params, const Request& request) {
    return request.wants_support || params.support > 0;
}

// How many tokens of the support are answered, if any are.
constexpr std::size_t support_room(const proto::SamplingParams& params, const Request& request,
                                   std::size_t all) {
    return request.wants_support || params.support >= all ? all : params.support;
}

}  // namespace croupier::sampler
