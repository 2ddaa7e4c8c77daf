// The kernels of whole rows, compiled for this CPU.
#include "gpu_writer/slice_kernels.cu"  // NOLINT(bugprone-suspicious-include)
