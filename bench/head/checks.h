// Shows on a GPU that the fused kernel's results are right, and that no batch, place or tile shape changes
// them.
#pragma once

#include "bench/head/jobs.h"

namespace croupier::gpu_writer::head {

std::vector<Job> check_jobs();

}  // namespace croupier::gpu_writer::head
