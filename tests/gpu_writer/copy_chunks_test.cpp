// How slices are cut into copies: every tile once, the first soon, the last ones short, and few in all.
#include "gpu_writer/copy_chunks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

using namespace croupier::gpu_writer;

namespace {

std::vector<std::uint32_t> ends_of(std::uint32_t tiles, std::uint64_t row_bytes) {
    std::vector<std::uint32_t> ends = {std::min(tiles_in(kFirstChunk, row_bytes), tiles)};
    std::uint64_t bytes = kFirstChunk;
    while (ends.back() < tiles) ends.push_back(chunk_end(ends.back(), tiles, row_bytes, bytes));
    return ends;
}

}  // namespace

TEST_CASE("chunks follow one another to the last tile, none of them empty or too long") {
    std::mt19937_64 random(7);
    for (int i = 0; i < 2000; ++i) {
        const auto tiles = static_cast<std::uint32_t>(1 + random() % (i % 2 == 0 ? 5000 : 300000));
        const std::uint64_t row_bytes = 2 + random() % 200000;
        const auto ends = ends_of(tiles, row_bytes);
        INFO(tiles << " tiles of " << row_bytes << " bytes");
        REQUIRE(ends.back() == tiles);
        std::uint32_t begin = 0;
        for (const std::uint32_t end : ends) {
            REQUIRE(end > begin);
            REQUIRE((end - begin) * row_bytes <= std::max(kMostChunk, row_bytes));
            begin = end;
        }
        const std::uint32_t before_last = ends.size() > 1 ? ends[ends.size() - 2] : 0;
        REQUIRE((tiles - before_last) * row_bytes <= std::max(kLastChunk, row_bytes));
        REQUIRE(ends.size() <= 5 + tiles * row_bytes / (kMostChunk / 2));
    }
}

TEST_CASE("a batch of 256 and one of 32 of a large vocabulary are cut into few chunks") {
    CHECK(ends_of(2374, std::uint64_t{256} * 128).size() == 9);
    CHECK(ends_of(2374, std::uint64_t{32} * 128).size() == 5);
    CHECK(ends_of(2374, 128).size() == 2);
}
