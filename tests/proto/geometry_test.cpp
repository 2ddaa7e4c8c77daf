#include "proto/geometry.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "proto/lean_part.h"
#include "proto/sampling.h"
#include "proto/segment_layout.h"
#include "random_geometry.h"

using namespace croupier::proto;

namespace {

Geometry sound_geometry() {
    Geometry g;
    g.vocab = 151936;
    g.tp = 4;
    g.max_batch = 64;
    g.slots = 2;
    g.max_sequences = 128;
    g.max_length = 4096;
    fill_even_shards(g);
    return g;
}

std::string fault_of(const Geometry& g) {
    return geometry_fault(g).value_or("");
}

struct Limit {
    const char* field;
    std::uint32_t Geometry::*member;
    std::uint32_t low;
    std::uint32_t high;
};

const std::vector<Limit> kLimits = {
    {"vocab", &Geometry::vocab, 1, kMaxVocab},
    {"tp", &Geometry::tp, 1, kMaxTp},
    {"max_batch", &Geometry::max_batch, 1, kMaxBatch},
    {"slots", &Geometry::slots, 1, kMaxSlots},
    {"max_sequences", &Geometry::max_sequences, 1, kMaxSequences},
    {"max_length", &Geometry::max_length, 2, kMaxLength},
    {"max_bias", &Geometry::max_bias, 0, kMaxBias},
    {"max_stop_ids", &Geometry::max_stop_ids, 0, kMaxStopIds},
    {"max_list_tokens", &Geometry::max_list_tokens, 0, kMaxListTokens},
    {"mask_rows", &Geometry::mask_rows, 0, kMaxBatch},
    {"has_order", &Geometry::has_order, 0, 1},
    {"has_summaries", &Geometry::has_summaries, 0, 1},
};

}  // namespace

TEST_CASE("even shards cover the vocabulary without a gap, and none is empty") {
    for (std::uint32_t tp = 1; tp <= kMaxTp; ++tp) {
        for (const std::uint32_t vocab : {tp, tp + 1, 2 * tp - 1, 32000U, 50257U, 151936U, kMaxVocab}) {
            Geometry g = sound_geometry();
            g.vocab = vocab;
            g.tp = tp;
            fill_even_shards(g);
            INFO("vocab " << vocab << ", tp " << tp);
            REQUIRE(fault_of(g).empty());
        }
    }
}

TEST_CASE("even shards are equal when the vocabulary divides") {
    Geometry g = sound_geometry();
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        CHECK(g.shards[rank].count == 151936 / 4);
        CHECK(g.shards[rank].first_id == rank * (151936 / 4));
    }
}

TEST_CASE("each field of a geometry outside its range is refused by name, value and range") {
    for (const auto& limit : kLimits) {
        std::vector<std::uint32_t> wrong = {limit.high + 1, 0xFFFFFFFFU};
        if (limit.low > 0) wrong.push_back(limit.low - 1);
        for (const std::uint32_t value : wrong) {
            Geometry g = sound_geometry();
            g.*limit.member = value;
            const std::string fault = fault_of(g);
            INFO(limit.field << " = " << value << ": " << fault);
            CHECK(fault.find(std::string(limit.field) + " is " + std::to_string(value)) == 0);
            CHECK(fault.find(std::to_string(limit.low) + " to " + std::to_string(limit.high)) !=
                  std::string::npos);
        }
    }
}

TEST_CASE("a step has no more windows than rows") {
    Geometry g = sound_geometry();
    g.max_windows = g.max_batch;
    CHECK(fault_of(g).empty());
    ++g.max_windows;
    CHECK(fault_of(g) == "max_windows is " + std::to_string(g.max_windows) + ", allowed is 0 to " +
                             std::to_string(g.max_batch));
}

TEST_CASE("an unknown dtype is refused") {
    Geometry g = sound_geometry();
    g.dtype = static_cast<Dtype>(3);
    CHECK(fault_of(g).find("dtype is 3") == 0);
}

TEST_CASE("more ranks than tokens are refused") {
    Geometry g = sound_geometry();
    g.vocab = 3;
    CHECK(fault_of(g).find("tp is 4, allowed is 1 to 3") == 0);
}

TEST_CASE("shards with a gap, an overlap, an empty rank or a wrong sum are refused, naming the rank") {
    Geometry g = sound_geometry();
    SECTION("gap") {
        g.shards[1].first_id += 1;
        CHECK(fault_of(g).find("shard of rank 1 starts at id 37985") == 0);
    }
    SECTION("overlap") {
        g.shards[2].first_id -= 1;
        CHECK(fault_of(g).find("shard of rank 2 starts at id 75967") == 0);
    }
    SECTION("empty") {
        g.shards[3].count = 0;
        CHECK(fault_of(g).find("shard of rank 3") == 0);
    }
    SECTION("wrong sum") {
        g.shards[3].count -= 1;
        CHECK(fault_of(g).find("the shards hold 151935 ids together, the vocabulary has 151936") == 0);
    }
    SECTION("a count that overflows 32 bits") {
        g.shards[2].count = 0xFFFFFFFFU;
        CHECK_FALSE(fault_of(g).empty());
    }
}

TEST_CASE("shards may hold padding beyond the vocabulary, up to a limit") {
    Geometry g = sound_geometry();
    g.shards[3].count += 64;
    CHECK(fault_of(g).empty());
    CHECK(g.real_ids(3) == g.shards[3].count - 64);
    g.vocab = g.shards[2].first_id + 5;
    CHECK(fault_of(g).empty());
    CHECK(g.real_ids(1) == g.shards[1].count);
    CHECK(g.real_ids(2) == 5);
    CHECK(g.real_ids(3) == 0);
    g.shards[3].count = kMaxPaddedVocab;
    CHECK(fault_of(g).find("the shards of rank 0 to 3 hold") == 0);
    CHECK(fault_of(g).find("allowed are 2097152") != std::string::npos);
}

TEST_CASE("a padded vocabulary is cut evenly, and one that is smaller than the vocabulary is none") {
    Geometry g = sound_geometry();
    g.vocab = 151669;
    fill_even_shards(g, 151936);
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) CHECK(g.shards[rank] == RankShard{rank * 37984, 37984});
    CHECK(fault_of(g).empty());
    fill_even_shards(g, 100);
    CHECK(g.shards[3].first_id + g.shards[3].count == 151669);
}

TEST_CASE("a slice holds the blocks that its ids touch, whole") {
    CHECK(RankShard{0, 64}.blocks() == 1);
    CHECK(RankShard{0, 65}.blocks() == 2);
    CHECK(RankShard{63, 2}.blocks() == 2);
    CHECK(RankShard{63, 2}.first_block() == 0);
    CHECK(RankShard{130, 3}.first_block() == 2);
    CHECK(RankShard{130, 3}.blocks() == 1);
    CHECK(RankShard{130, 0}.blocks() == 0);
    Geometry g;
    g.vocab = 200;
    g.tp = 2;
    g.shards[0] = {0, 63};
    g.shards[1] = {63, 137};
    g.tile = 48;
    CHECK(g.tiles(0) == 2);
    CHECK(g.tiles(1) == 6);
}

TEST_CASE("a rank with more tiles than a ready word can count is refused") {
    Geometry g = sound_geometry();
    g.vocab = kMaxVocab;
    g.tp = 1;
    g.tile = 1;
    fill_even_shards(g);
    CHECK(fault_of(g).find("shard of rank 0 has 1048576 tiles") == 0);
    g.tile = kBlockIds;
    CHECK(fault_of(g).empty());
}

TEST_CASE("every geometry within the limits is usable") {
    RandomGeometry random(1);
    for (int i = 0; i < 5000; ++i) REQUIRE(fault_of(random.draw()).empty());
}

TEST_CASE("tiles have 1 or 64 ids") {
    Geometry g = sound_geometry();
    for (const std::uint32_t tile : {0U, 2U, 32U, 63U, 65U, 128U}) {
        g.tile = tile;
        CHECK(fault_of(g) == "tile is " + std::to_string(tile) + ", allowed are 1 and 64");
    }
    for (const std::uint32_t tile : {1U, kBlockIds}) {
        g.tile = tile;
        CHECK(fault_of(g).empty());
    }
}

TEST_CASE("the transport lean has limits of its own, and nothing that needs whole rows") {
    Geometry g = sound_geometry();
    g.tile = kBlockIds;
    CHECK_FALSE(g.is_lean());
    g.lean_blocks = 64;
    CHECK(g.is_lean());
    CHECK(fault_of(g).empty());
    SECTION("its room is a multiple of the granule") {
        g.lean_blocks = 65;
        CHECK_THAT(fault_of(g), Catch::Contains("lean_blocks is 65"));
    }
    SECTION("its room has an end") {
        g.lean_blocks = kMostLeanBlocks + kLeanGranule;
        CHECK_THAT(fault_of(g), Catch::Contains("lean_blocks is 1056"));
    }
    SECTION("its tiles have 64 ids") {
        g.tile = 1;
        CHECK_THAT(fault_of(g), Catch::Contains("the transport lean has tiles of 64"));
    }
    SECTION("it has no hotness order") {
        g.has_order = 1;
        CHECK_THAT(fault_of(g), Catch::Contains("hotness order"));
    }
    SECTION("it has no summaries") {
        g.has_summaries = 1;
        CHECK_THAT(fault_of(g), Catch::Contains("summaries"));
    }
}

TEST_CASE("a geometry that differs is told by the first option that does") {
    const Geometry asked = sound_geometry();
    Geometry present = asked;
    CHECK_FALSE(geometry_difference(present, asked));
    const auto difference = [&] { return geometry_difference(present, asked).value_or("none"); };
    SECTION("by a number") {
        present.slots = 7;
        CHECK(difference() == "steps_in_flight is 7 in the session and 2 in the options");
    }
    SECTION("by what was not given") {
        present.max_windows = 3;
        CHECK(difference() == "max_windows is 3 in the session and 0 in the options");
    }
    SECTION("by the transport") {
        present.lean_blocks = 96;
        CHECK(difference() == "transport is lean in the session and rows in the options");
    }
    SECTION("by the type of the logits") {
        present.dtype = Dtype::fp32;
        CHECK(difference() == "dtype is fp32 in the session and bf16 in the options");
    }
    SECTION("by the order") {
        present.has_order = 1;
        CHECK(difference() == "the hotness order is given in the session and absent in the options");
    }
    SECTION("by the tokenizer") {
        present.token_table_bytes = 500;
        CHECK(difference() == "the tokenizer is one of 500 bytes in the session and absent in the options");
    }
    SECTION("by what the ranks hold") {
        present.shards[1].count += 1;
        CHECK_THAT(difference(),
                   Catch::Contains("of rank 1 is 37985 in the session and 37984 in the options"));
    }
    SECTION("by a rank that only one of them has") {
        present.shards[kMaxTp - 1].count = 5;
        CHECK_THAT(difference(), Catch::Contains("of rank 63 is 5 in the session and 0 in the options"));
    }
    SECTION("by any word") {
        constexpr std::size_t kNumbers = 19;
        for (std::size_t word = 0; word < kNumbers; ++word) {
            Geometry other = asked;
            std::uint32_t value = 0;
            std::byte* at = reinterpret_cast<std::byte*>(&other) + word * sizeof(value);
            std::memcpy(&value, at, sizeof(value));
            ++value;
            std::memcpy(at, &value, sizeof(value));
            INFO(word);
            CHECK(geometry_difference(other, asked));
        }
    }
}
