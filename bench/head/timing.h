// Times the fused kernel beside cuBLAS, and prints a table and records.
#pragma once

#include "bench/head/jobs.h"

namespace croupier::gpu_writer::head {

std::vector<Job> timing_jobs();

}  // namespace croupier::gpu_writer::head
