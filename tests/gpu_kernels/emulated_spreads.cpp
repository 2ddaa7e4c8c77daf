// Rows' spreads of a lean step, compiled for this CPU.
#include "gpu_writer/spread_kernel.cu"  // NOLINT(bugprone-suspicious-include)
