#include "gpu_writer/lean_launch.cuh"

namespace croupier::gpu_writer::lean {

const LeanLaunches kFp32Launches = launches_of<Dtype::fp32>();

}  // namespace croupier::gpu_writer::lean
