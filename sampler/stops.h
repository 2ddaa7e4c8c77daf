// A decision's flags: how its token was chosen, and whether the sequence ends with it.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "sampler/request.h"

namespace croupier::sampler {

std::uint16_t flags_of(const proto::SamplingParams& params, const Request& request,
                       std::int32_t token) noexcept;

}  // namespace croupier::sampler
