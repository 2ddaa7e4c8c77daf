// What a request's parameters switch on (request/), by the names that sampler/ uses without a prefix.
#pragma once

#include "request/draw.h"
#include "request/steps.h"

namespace croupier::sampler {

using request::draw_temperature;
using request::effective_temperature;
using request::has_adaptive_p;
using request::has_mirostat;
using request::is_filter;
using request::is_greedy;
using request::is_truncated;
using request::kLowestTemperature;
using request::order_of;
using request::perturbs_logits;
using request::proposes;
using request::takes_step;

}  // namespace croupier::sampler
