// What can be said of hidden states and an LM head without the GPU whose they are.
#pragma once

#include "gpu_writer/enqueued_rows.h"
#include "proto/geometry.h"
#include "shm/error.h"

namespace croupier::gpu_writer {

// Whether a writer in such a session could compute rows of them.
shm::Result<bool> check_head(const EnqueuedHead& head, const proto::Geometry& geometry);

}  // namespace croupier::gpu_writer
