// How a request is decided: one path, seen from its parameters before its row is looked at.
#pragma once

#include <cstdint>

#include "proto/plain_draw.h"
#include "proto/sampling.h"
#include "sampler/candidates.h"
#include "sampler/request.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

struct Plan {
    Path path = Path::whole_row;
    Pruning pruning;  // what stands before the first filter, and what that one lets through
    // The filter that is no more to be applied to what the search lets through: a top-n sigma before what
    // cuts, or a top-p that is told from what the row weighs.
    proto::Step applied = proto::Step::end;
    bool adjusts_first = true;  // every penalty before every filter: a token has one value
    bool sums_logprob = false;  // the processed one, as a raw one: by what the row weighs
    // The filter that a winner is asked about; or the temperature, where it follows from the entropy.
    proto::Step asked = proto::Step::end;
};

// What is known of a row before its logits are there.
struct RowKind {
    proto::Dtype dtype;
    std::uint32_t vocab;
};

proto::RequestRules rules_of(const proto::SamplingParams& params, const Request& request) noexcept;

Plan plan_of(const proto::SamplingParams& params, const Request& request, const RowKind& row) noexcept;

// Where the path's bounds leave a question open, or it does not apply: the path that always answers.
Path exact_path(const proto::SamplingParams& params, const Request& request, const Plan& plan,
                const RowKind& row) noexcept;

// Whether a race among all tokens will draw: its first arrivals may be made before.
bool awaits_race(const proto::SamplingParams& params, const Request& request, const RowKind& row) noexcept;

}  // namespace croupier::sampler
