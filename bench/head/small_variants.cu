#include "bench/head/launch_head.cuh"
#include "bench/head/variants.h"

namespace croupier::head {

std::span<const HeadVariant> small_variants() {
    // Columns, warpgroups, blocks of each, stages.
    static constexpr HeadVariant kAll[] = {
        {"8x128", 8, launch_tile<Tile<8, 2, 1, 12>>},   {"8x256", 8, launch_tile<Tile<8, 2, 2, 6>>},
        {"8x64", 8, launch_tile<Tile<8, 1, 1, 22>>},    {"16x128", 16, launch_tile<Tile<16, 2, 1, 11>>},
        {"16x256", 16, launch_tile<Tile<16, 2, 2, 6>>}, {"32x128", 32, launch_tile<Tile<32, 2, 1, 10>>},
        {"32x256", 32, launch_tile<Tile<32, 2, 2, 5>>},
    };
    return kAll;
}

}  // namespace croupier::head
