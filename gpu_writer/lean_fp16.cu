#include "gpu_writer/lean_launch.cuh"

namespace croupier::gpu_writer::lean {

const LeanLaunches kFp16Launches = launches_of<Dtype::fp16>();

}  // namespace croupier::gpu_writer::lean
