#include "gpu_writer/head_launch.cuh"

namespace croupier::gpu_writer::head {

const HeadTiles kTiles8 = tiles_of<8, 1, 12>("8x128");
const HeadTiles kTiles16 = tiles_of<16, 1, 11>("16x128");
const HeadTiles kTiles32 = tiles_of<32, 1, 10>("32x128");

}  // namespace croupier::gpu_writer::head
