#include "bench/head/launch_head.cuh"
#include "bench/head/variants.h"

namespace croupier::head {

std::span<const HeadVariant> middle_variants() {
    // Columns, warpgroups, blocks of each, stages, CUDA blocks of a cluster.
    static constexpr HeadVariant kAll[] = {
        {"64x128", 64, launch_tile<Tile<64, 2, 1, 8>>},
        {"64x256", 64, launch_tile<Tile<64, 2, 2, 5>>},
        {"64x192", 64, launch_tile<Tile<64, 3, 1, 6>>},
        {"64x128c2", 64, launch_tile<Tile<64, 2, 1, 8, 2>>},
        {"128x192", 128, launch_tile<Tile<128, 3, 1, 5>>},
        {"128x256", 128, launch_tile<Tile<128, 2, 2, 4>>},
        {"128x128c2", 128, launch_tile<Tile<128, 2, 1, 6, 2>>},
        {"128x192c2", 128, launch_tile<Tile<128, 3, 1, 5, 2>>},
    };
    return kAll;
}

}  // namespace croupier::head
