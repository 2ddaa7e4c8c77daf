#include <catch2/catch.hpp>
#include <random>

#include "proto/decision_slot.h"
#include "proto/logits_slot.h"

using namespace croupier::proto;

TEST_CASE("a ready word unpacks to what was packed") {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10000; ++i) {
        const std::uint64_t bits = random();
        REQUIRE(ReadyWord::unpack(bits).pack() == bits);
        const ReadyWord word{static_cast<std::uint32_t>(random() & 0xFFFFU),
                             static_cast<std::uint32_t>(random()) & ReadyWord::kStepMask,
                             static_cast<std::uint32_t>(random()) & ReadyWord::kTileMask};
        const ReadyWord back = ReadyWord::unpack(word.pack());
        REQUIRE(back.epoch == word.epoch);
        REQUIRE(back.step_tag == word.step_tag);
        REQUIRE(back.tiles == word.tiles);
    }
}

TEST_CASE("a field of a ready word that is too large does not spill into its neighbours") {
    const ReadyWord epoch = ReadyWord::unpack(ReadyWord{0x10001U, 0, 0}.pack());
    CHECK((epoch.epoch == 1 && epoch.step_tag == 0 && epoch.tiles == 0));
    const ReadyWord tag = ReadyWord::unpack(ReadyWord{0, ReadyWord::kStepMask + 3, 0}.pack());
    CHECK((tag.epoch == 0 && tag.step_tag == 2 && tag.tiles == 0));
    const ReadyWord tiles = ReadyWord::unpack(ReadyWord{0, 0, ReadyWord::kTileMask + 5}.pack());
    CHECK((tiles.epoch == 0 && tiles.step_tag == 0 && tiles.tiles == 4));
}

TEST_CASE("a zeroed ready word is the word of no step before the tags have run once") {
    for (const std::uint64_t step : {0ULL, 1ULL, 63ULL, (1ULL << 28U) - 2})
        CHECK(ReadyWord::tag_of(step) != 0);
    CHECK(ReadyWord::tag_of((1ULL << 28U) - 1) == 0);
    CHECK(ReadyWord::tag_of(1ULL << 28U) == 1);
}

TEST_CASE("two steps that share a slot never share a ready tag within reach of the ring") {
    for (std::uint64_t slots = 1; slots <= 64; ++slots) {
        for (const std::uint64_t step : {0ULL, 12345ULL, (1ULL << 28U) - 2, (1ULL << 32U) - 1}) {
            REQUIRE(ReadyWord::tag_of(step) != ReadyWord::tag_of(step + slots));
        }
    }
}

TEST_CASE("claim and refusal words unpack to what was packed") {
    std::mt19937_64 random(2);
    for (int i = 0; i < 10000; ++i) {
        const std::uint64_t bits = random();
        REQUIRE(ClaimWord::unpack(bits).pack() == bits);
        REQUIRE(RefusalWord::unpack(bits).pack() == bits);
    }
    const ClaimWord claim = ClaimWord::unpack(ClaimWord{7, 0xFFFFFFFFU}.pack());
    CHECK((claim.step_tag == 7 && claim.owner == 0xFFFFFFFFU));
    const RefusalWord refusal = RefusalWord::unpack(RefusalWord{0xFFFFFFFFU, 9}.pack());
    CHECK((refusal.step_tag == 0xFFFFFFFFU && refusal.error == 9));
}

TEST_CASE("the bitmap has a bit for each column and no word more") {
    CHECK(bitmap_words(1) == 1);
    CHECK(bitmap_words(64) == 1);
    CHECK(bitmap_words(65) == 2);
    CHECK(bitmap_words(4096) == 64);
}
