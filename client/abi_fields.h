// The plain structs of the C ABI and what they stand for in proto/: the one place that pairs their fields.
#pragma once

#include "croupier/client.h"
#include "proto/geometry.h"
#include "proto/sampling.h"

namespace croupier::client {

proto::SamplingParams params_from_abi(const croupier_params& params);
croupier_params params_to_abi(const proto::SamplingParams& params);

// With even shards of the padded vocabulary; it has an order when the options have one.
proto::Geometry geometry_from_abi(const croupier_open_options& options);
// All but the order, which the geometry does not hold.
void geometry_to_abi(const proto::Geometry& geometry, croupier_open_options& options);

}  // namespace croupier::client
