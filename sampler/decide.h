// The decision: a pure function of the row, the parameters, the history and the randoms.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

struct Request {
    const proto::SamplingParams* params = nullptr;
    std::span<const proto::TokenBias> bias;
    std::span<const std::int32_t> stop_ids;
    std::span<const std::int32_t> prompt;
    std::span<const std::int32_t> output;  // its length is the position that is decided
    std::span<const std::uint32_t> mask;   // 1 = allowed, least significant bit first; empty: all allowed
    std::uint32_t max_length = 0;          // prompt and output may not grow past this
    std::uint32_t random = 0;              // stream 0 at this position (sampler/philox.h)
};

// Every input may come from another process: ids, lengths and parameters are checked, and what is wrong
// comes back as the decision's error. `sequence_uid` is left to the caller.
proto::Decision decide(const RowView& row, const Request& request, Workspace& workspace) noexcept;

}  // namespace croupier::sampler
