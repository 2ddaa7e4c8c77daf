// Makes the plan of a sampler's request (request/plan.h).
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "request/plan.h"
#include "sampler/request.h"

namespace croupier::sampler {

// `params` are the request's, or a copy of them that was checked.
request::Plan plan_of(const proto::SamplingParams& params, const Request& request,
                      std::uint32_t vocab) noexcept;

}  // namespace croupier::sampler
