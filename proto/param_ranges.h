// Whether parameters are in their ranges (proto/sampling.h): the client refuses by it, and the sampler
// checks by it what another process wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/sampling.h"

namespace croupier::proto {

// Strings are static: a fault can be found on the hot path without allocating.
struct ParamFault {
    const char* field;
    double value;
    const char* range;
};

// The longest loop, loop_count copies of loop_max_period tokens: a sampler may compare all of them for each
// period that is allowed.
constexpr std::uint32_t kMaxLoopTokens = 4096;

// Ids are checked apart, by token_in_range: a range of ids depends on the session.
std::optional<ParamFault> param_fault(const SamplingParams& params) noexcept;
std::string describe(const ParamFault& fault);
// The first field that is set and does not lie in the struct's first `bytes`: what a build that knows no more
// of it would miss.
const char* first_field_beyond(const SamplingParams& params, std::size_t bytes);

constexpr const char* kBiasRange = "-100 to 100";
bool bias_in_range(float bias) noexcept;

constexpr bool token_in_range(std::int32_t token, std::uint32_t vocab) noexcept {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocab;
}

}  // namespace croupier::proto
