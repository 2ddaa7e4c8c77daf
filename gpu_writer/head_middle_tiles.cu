#include "gpu_writer/head_launch.cuh"

namespace croupier::gpu_writer::head {

const HeadTiles kTiles64 = tiles_of<64, 1, 8>("64x128");
const HeadTiles kTiles96 = tiles_of<96, 1, 7>("96x128");
const HeadTiles kTiles128 = tiles_of<128, 1, 6>("128x128");

}  // namespace croupier::gpu_writer::head
