// Whole columns of a lean step, compiled for this CPU.
#include "gpu_writer/whole_columns.cu"  // NOLINT(bugprone-suspicious-include)
