// The plan of a request (request/plan.h), as the sampler has one.
#pragma once

#include "proto/sampling.h"
#include "request/plan.h"
#include "sampler/request.h"

namespace croupier::sampler {

// What is known of a row before its logits are there.
struct RowKind {
    proto::Dtype dtype;
    std::uint32_t vocab;
};

// `params` are the request's, or a copy of them that was checked.
request::Plan plan_of(const proto::SamplingParams& params, const Request& request,
                      const RowKind& row) noexcept;

}  // namespace croupier::sampler
