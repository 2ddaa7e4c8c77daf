#include "gpu_writer/lean_launch.cuh"

namespace croupier::gpu_writer::lean {

const LeanLaunches kBf16Launches = launches_of<Dtype::bf16>();

}  // namespace croupier::gpu_writer::lean
