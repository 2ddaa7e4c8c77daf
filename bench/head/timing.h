// Times the fused kernel beside cuBLAS, and prints a table and records.
#pragma once

#include "bench/head/jobs.h"

namespace croupier::head {

std::vector<Job> timing_jobs();

}  // namespace croupier::head
