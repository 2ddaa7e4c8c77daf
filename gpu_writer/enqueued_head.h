// What can be said of hidden states and an LM head without the GPU whose they are.
#pragma once

#include "gpu_writer/enqueued_rows.h"
#include "proto/geometry.h"
#include "shm/error.h"

namespace croupier::gpu_writer {

// Of a row that a rank's writer computes: whole blocks, in which other ranks may have ids too.
std::uint32_t head_row_elements(const proto::Geometry& geometry, std::uint32_t rank);

// Where the rank's logits stand in rows that are computed: `to` is where the engine has room for them.
// Refused where no writer in such a session could.
shm::Result<EnqueuedRows> computed_rows(const EnqueuedHead& head, const EnqueuedRows& to,
                                        const proto::Geometry& geometry, std::uint32_t rank);

}  // namespace croupier::gpu_writer
