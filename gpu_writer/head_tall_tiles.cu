#include "gpu_writer/head_launch.cuh"

namespace croupier::gpu_writer::head {

const HeadTiles kTallTiles128 = tiles_of<128, 2, 4>("128x256");

}  // namespace croupier::gpu_writer::head
