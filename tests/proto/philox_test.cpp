#include "proto/philox.h"

#include <catch2/catch.hpp>

namespace croupier::proto {

TEST_CASE("Philox4x32-10 gives Random123's published known answers") {
    CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
          PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
    CHECK(philox4x32_10({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}) ==
          PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
    CHECK(philox4x32_10({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
          PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("a token's randoms use all 64 bits of the seed, the position, the child, the stream and n") {
    static_assert(random_at(0, 0, 0, 0) == 0x6627E8D5);
    CHECK(randoms_at(0x299F31D0A4093822ULL, 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344) ==
          PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
    CHECK(random_at(0x299F31D0A4093822ULL, 0x243F6A88, 0x85A308D3, 0x13198A2E) ==
          philox4x32_10({0x243F6A88, 0x85A308D3, 0x13198A2E, 0}, {0xA4093822, 0x299F31D0})[0]);
}

TEST_CASE("child 1 of seed 7 is not child 0 of seed 8, nor of the next position") {
    for (std::uint32_t stream = 0; stream < 8; ++stream) {
        const std::uint32_t random = random_at(7, 100, 1, stream);
        CHECK(random != random_at(8, 100, 0, stream));
        CHECK(random != random_at(7, 101, 0, stream));
        CHECK(random != random_at(7, 100, 0, stream));
    }
}

}  // namespace croupier::proto
