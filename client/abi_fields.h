// Converts the plain structs of the C ABI to those of proto/. Only this file pairs their fields.
#pragma once

#include "croupier/client.h"
#include "proto/geometry.h"
#include "proto/sampling.h"

namespace croupier::client {

proto::SamplingParams params_from_abi(const croupier_params& params);
croupier_params params_to_abi(const proto::SamplingParams& params);

// The geometry has an order if the options have one, and even shards of the padded vocabulary.
proto::Geometry geometry_from_abi(const croupier_open_options& options);
// All but the order, which the geometry does not hold.
void geometry_to_abi(const proto::Geometry& geometry, croupier_open_options& options);

}  // namespace croupier::client
