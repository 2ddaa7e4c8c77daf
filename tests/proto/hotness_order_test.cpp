#include "proto/hotness_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "hot_sets/ranking.h"
#include "proto/checksum.h"
#include "proto/hotness_file.h"
#include "random_geometry.h"

using namespace croupier::proto;

namespace {

HotnessOrder small_order() {
    return croupier::hot_sets::rank_by_count("tiny", 0.5, std::vector<double>{3, 0, 7, 3, 0});
}

std::string fault_of(const HotnessOrder& order) {
    return order_fault(order).value_or("");
}

std::vector<std::uint32_t> shuffled(std::uint32_t count, std::mt19937& random) {
    std::vector<std::uint32_t> blocks(count);
    std::iota(blocks.begin(), blocks.end(), 0U);
    std::shuffle(blocks.begin(), blocks.end(), random);
    return blocks;
}

}  // namespace

TEST_CASE("ids are ranked by count, and by id where counts are equal") {
    const HotnessOrder order = small_order();
    CHECK(order.ids == std::vector<std::int32_t>{2, 0, 3, 1, 4});
    CHECK(order.counts == std::vector<double>{7, 3, 3, 0, 0});
    CHECK(order.counted() == 13);
    CHECK(fault_of(order).empty());
}

TEST_CASE("ids that nobody counted stand in their own order") {
    const HotnessOrder order = croupier::hot_sets::rank_by_count("tiny", 0, std::vector<double>(100));
    CHECK(std::is_sorted(order.ids.begin(), order.ids.end()));
    CHECK(fault_of(order).empty());
}

TEST_CASE("an order that lies is refused by field, value and what would be right") {
    HotnessOrder order = small_order();
    SECTION("an id twice") {
        order.ids[3] = 2;
        CHECK_THAT(fault_of(order), Catch::Contains("ids[3] is 2, which came before"));
    }
    SECTION("an id outside the vocabulary") {
        order.ids[1] = GENERATE(-1, 5);
        CHECK_THAT(fault_of(order), Catch::Contains("ids[1] is " + std::to_string(order.ids[1])) &&
                                        Catch::Contains("should be 0 to 4"));
    }
    SECTION("counts that grow along the order") {
        order.counts[2] = 3.5;
        CHECK_THAT(fault_of(order), Catch::Contains("counts[2] is 3.5, more than the 3 before it"));
    }
    SECTION("equal counts whose ids do not ascend") {
        std::swap(order.ids[1], order.ids[2]);
        CHECK_THAT(fault_of(order), Catch::Contains("ids[2] is 0, after 3 with the same count"));
    }
    SECTION("a count that is none") {
        order.counts[4] = GENERATE(-1.0, -0.0, std::numeric_limits<double>::quiet_NaN());
        CHECK_THAT(fault_of(order), Catch::Contains("counts[4] is ") && Catch::Contains("at least 0"));
    }
    SECTION("an infinite count") {
        order.counts[0] = std::numeric_limits<double>::infinity();
        CHECK_THAT(fault_of(order), Catch::Contains("counts[0] is inf"));
    }
    SECTION("counts whose sum is no number any more") {
        order.counts.assign(5, std::numeric_limits<double>::max());
        order.ids = {0, 1, 2, 3, 4};
        CHECK_THAT(fault_of(order), Catch::Contains("add up to more"));
    }
    SECTION("more ids than counts") {
        order.counts.pop_back();
        CHECK_THAT(fault_of(order), Catch::Contains("ids are 5 and counts 4"));
    }
    SECTION("no ids at all") {
        order.ids.clear();
        order.counts.clear();
        CHECK_THAT(fault_of(order), Catch::Contains("1 to " + std::to_string(kMaxVocab)));
    }
    SECTION("a smoothing outside its range") {
        order.smoothing = GENERATE(-0.5, -0.0, 1e7, std::numeric_limits<double>::quiet_NaN());
        CHECK_THAT(fault_of(order), Catch::Contains("smoothing is ") && Catch::Contains("0 to 1e+06"));
    }
}

TEST_CASE("a sum that is not that of the counts is refused") {
    const HotnessOrder order = small_order();
    CHECK_FALSE(counted_fault(order, 13).has_value());
    CHECK_THAT(counted_fault(order, 14).value_or(""), Catch::Contains("counted is 14, should be 13"));
    CHECK(counted_fault(order, std::numeric_limits<double>::quiet_NaN()).has_value());
}

TEST_CASE("a model's name is UTF-8 of bounded length") {
    const auto good = GENERATE(as<std::string>(), "Qwen/Qwen3-8B", "a model", "modèle", "模型",
                               "\xF0\x9F\x83\x8F", std::string(kMaxModelName, 'x'));
    INFO(good);
    CHECK_FALSE(model_name_fault(good).has_value());
}

TEST_CASE("a model's name that is none is refused, with the byte and its place") {
    const auto bad =
        GENERATE(as<std::string>(), "", "new\nline", "del\x7F", std::string("nul\0l", 5), "\xC3", "\x80",
                 "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF", "\xF4\x90\x80\x80",
                 "\xF5\x80", "\xE2\x28\xA1", std::string(kMaxModelName + 1, 'x'));
    INFO(bad);
    CHECK_THAT(model_name_fault(bad).value_or(""), Catch::Contains("should be 1 to 112 bytes of UTF-8"));
    CHECK_THAT(model_name_fault("ab\xFF").value_or(""), Catch::Contains("the byte 255 at offset 2"));
}

TEST_CASE("blocks are ranked by what their ids were counted together, equal ones by their number") {
    std::vector<double> counts(64 * 4 + 10, 0.0);
    counts[64 * 2 + 7] = 3.0;
    counts[64 * 2 + 60] = 3.0;
    counts[64 * 4 + 0] = 5.0;
    counts[64 * 4 + 9] = 1.0;
    counts[1] = 4.0;
    CHECK(rank_blocks(croupier::hot_sets::rank_by_count("m", 0.0, counts)) ==
          std::vector<std::uint32_t>{2, 4, 0, 1, 3});
}

TEST_CASE("an order that lacks a block, or has one twice, is refused, saying which entry") {
    CHECK_FALSE(block_order_fault(std::vector<std::uint32_t>{7, 5, 6}, 5));
    CHECK_FALSE(block_order_fault({}, 9));
    CHECK_THAT(block_order_fault(std::vector<std::uint32_t>{5, 6, 5}, 5).value_or(""),
               Catch::Contains("entry 2 is 5, which came before"));
    CHECK_THAT(block_order_fault(std::vector<std::uint32_t>{5, 8, 6}, 5).value_or(""),
               Catch::Contains("entry 1 is 8, its blocks are 5 to 7"));
    CHECK_THAT(block_order_fault(std::vector<std::uint32_t>{4}, 5).value_or(""), Catch::Contains("is 4"));
    CHECK(places_of(std::vector<std::uint32_t>{7, 5, 6}, 5) == std::vector<std::uint32_t>{1, 2, 0});
}

TEST_CASE("each rank has its blocks in the model's order, and what lies beyond the vocabulary after them") {
    std::mt19937 random(11);
    RandomGeometry geometries(12);
    for (int i = 0; i < 20; ++i) {
        const Geometry geometry = geometries.draw();
        INFO("vocab " << geometry.vocab << " tp " << geometry.tp);
        const std::vector<std::uint32_t> order = shuffled(geometry.blocks(), random);
        std::vector<std::size_t> place(order.size());
        for (std::size_t at = 0; at < order.size(); ++at) place[order[at]] = at;
        // Those beyond the vocabulary: in the order of their ids.
        const auto place_of = [&](std::uint32_t block) {
            return block < place.size() ? place[block] : block;
        };
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const RankShard& shard = geometry.shards[rank];
            const std::vector<std::uint32_t> own = blocks_of_rank(geometry, rank, order);
            REQUIRE(own.size() == shard.blocks());
            REQUIRE_FALSE(block_order_fault(own, shard.first_block()));
            REQUIRE(std::is_sorted(own.begin(), own.end(), [&](std::uint32_t a, std::uint32_t b) {
                return place_of(a) < place_of(b);
            }));
        }
    }
}

TEST_CASE("a hot set is a prefix of every rank's slice, as long as is said") {
    std::mt19937 random(13);
    RandomGeometry geometries(14);
    for (int i = 0; i < 20; ++i) {
        const Geometry geometry = geometries.draw();
        const std::vector<std::uint32_t> order = shuffled(geometry.blocks(), random);
        const std::uint32_t hot = std::uniform_int_distribution<std::uint32_t>(0, geometry.vocab)(random);
        const std::vector<std::uint32_t> prefixes = hot_prefixes(geometry, order, hot);
        REQUIRE(prefixes.size() == geometry.tp);
        std::set<std::uint32_t> gathered;
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const auto own = blocks_of_rank(geometry, rank, order);
            gathered.insert(own.begin(), own.begin() + prefixes[rank]);
        }
        REQUIRE(gathered == std::set<std::uint32_t>(order.begin(), order.begin() + blocks_of(hot)));
    }
}

TEST_CASE("checksums stay what they are: files and frames hold them") {
    Checksum bytes;
    bytes.add("foobar", 6);
    CHECK(bytes.value() == 0x85944171f73967e8ULL);
    WordChecksum words;
    words.add("the quick brown fox", 19);
    CHECK(words.value() == 0x8ea1638b412e0e69ULL);
}

TEST_CASE("a checksum changes with every byte, however it is fed") {
    std::vector<unsigned char> bytes(300);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
    Checksum whole;
    whole.add(bytes.data(), bytes.size());
    Checksum parts;
    parts.add(bytes.data(), 7);
    parts.add(bytes.data() + 7, bytes.size() - 7);
    CHECK(parts.value() == whole.value());
    for (unsigned char& byte : bytes) {
        byte ^= 0x40U;
        Checksum changed;
        changed.add(bytes.data(), bytes.size());
        REQUIRE(changed.value() != whole.value());
        byte ^= 0x40U;
    }
}
