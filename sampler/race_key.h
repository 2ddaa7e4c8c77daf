// Which race a request's draw is.
#pragma once

#include "proto/race.h"
#include "proto/sampling.h"
#include "sampler/request.h"

namespace croupier::sampler {

inline proto::race::Key race_key(const proto::SamplingParams& params, const Request& request) {
    return {params.seed, random_position(request), params.child};
}

}  // namespace croupier::sampler
