// The requests of a run: each is a function of the options and its index, never of timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/sampling.h"
#include "sim/hidden_state.h"
#include "sim/options.h"
#include "testing/text_reference.h"

namespace croupier::sim {

constexpr std::uint32_t kMaxBiases = 16;
constexpr std::uint32_t kMaxStops = 4;
constexpr std::uint32_t kMaxListWords = 64;
constexpr std::uint32_t kMaxStopWords = 256;  // of stop strings
constexpr std::uint32_t kMostSiblings = 7;    // a request may be one of several children
constexpr std::uint32_t kNeverPoisoned = UINT32_MAX;

struct Request {
    std::uint32_t index = 0;
    proto::SamplingParams params;
    std::uint32_t prompt_length = 1;
    bool masked = false;
    std::uint32_t poisoned_at = kNeverPoisoned;  // the position whose row holds a NaN
    double arrival_s = 0.0;
    // Tokens that recur in its prompt and at the top of its rows, so that penalties and stops have an effect.
    std::array<std::int32_t, kThemes> themes{};
    std::array<std::uint32_t, kThemes> theme_numbers{};  // their indexes among the raised tokens
    std::vector<proto::TokenBias> bias;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> allowed_ids;
    std::vector<std::int32_t> bad_words;     // for each list, its length and then its ids
    std::vector<std::int32_t> dry_breakers;  // same format
    std::vector<std::string> stop_strings;

    // A row holds a NaN, or a mask may exclude every allowed id.
    bool may_fail() const { return poisoned_at != kNeverPoisoned || (masked && !allowed_ids.empty()); }
    std::uint64_t uid() const { return std::uint64_t{index} + 1; }
    // Whether the last token of this output ends the request, judged by the tokens alone: not by their text.
    bool ends_with(std::span<const std::int32_t> output) const;
};

// The tokens of the first `ids` ids: letters, and some of JSON, of which requests with stop_at_json have
// most.
testing::Pieces text_pieces(std::uint32_t ids);

class RequestPlan {
  public:
    // Creates as many requests as fill `steps` microbatches if all run to their max_tokens.
    explicit RequestPlan(const SimOptions& options);

    std::uint32_t size() const { return static_cast<std::uint32_t>(requests_.size()); }
    const Request& operator[](std::uint32_t index) const { return requests_[index]; }
    std::uint64_t most_tokens() const { return most_tokens_; }
    std::uint32_t longest() const { return longest_; }

    std::vector<std::int32_t> prompt(std::uint32_t index) const;
    std::int32_t prompt_token(std::uint32_t index, std::uint32_t place) const;

  private:
    std::uint64_t seed_;
    std::uint32_t vocab_;
    std::uint64_t most_tokens_ = 0;
    std::uint32_t longest_ = 0;
    std::vector<Request> requests_;
};

}  // namespace croupier::sim
