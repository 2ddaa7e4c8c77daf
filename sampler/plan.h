// Makes the plan of a sampler's request (request/plan.h).
#pragma once

#include "proto/dtype.h"
#include "proto/sampling.h"
#include "request/plan.h"
#include "sampler/request.h"

namespace croupier::sampler {

// What is known of a row before its logits arrive.
struct RowKind {
    proto::Dtype dtype;
    std::uint32_t vocab;
};

// `params` are the request's, or a copy of them that was checked.
request::Plan plan_of(const proto::SamplingParams& params, const Request& request,
                      const RowKind& row) noexcept;

}  // namespace croupier::sampler
