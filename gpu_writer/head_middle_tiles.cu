#include "gpu_writer/head_launch.cuh"

namespace croupier::gpu_writer::head {

const HeadTiles kTiles64 = tiles_of<64, 2, 1, 8>("64x128");
const HeadTiles kTiles128 = tiles_of<128, 2, 2, 4>("128x256");

}  // namespace croupier::gpu_writer::head
