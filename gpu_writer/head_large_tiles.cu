#include "gpu_writer/head_launch.cuh"

namespace croupier::gpu_writer::head {

const HeadTiles kTiles256 = tiles_of<256, 2, 1, 4>("256x128");

}  // namespace croupier::gpu_writer::head
