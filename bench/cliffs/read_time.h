// The baseline of costs: a plain read of a row.
#pragma once

#include "measurement/laid_rows.h"

namespace croupier::bench {

// Median microseconds.
double read_time_us(const measurement::LaidRows& rows);

}  // namespace croupier::bench
