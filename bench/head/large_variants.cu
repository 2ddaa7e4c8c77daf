#include "bench/head/launch_head.cuh"
#include "bench/head/variants.h"

namespace croupier::head {

std::span<const HeadVariant> large_variants() {
    // Columns, warpgroups, blocks of each, stages, CUDA blocks of a cluster.
    static constexpr HeadVariant kAll[] = {
        {"256x128", 256, launch_tile<Tile<256, 2, 1, 4>>},
        {"256x128c2", 256, launch_tile<Tile<256, 2, 1, 4, 2>>},
    };
    return kAll;
}

}  // namespace croupier::head
