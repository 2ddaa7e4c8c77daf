// The search for a rank above which about as many blocks are as are wanted, beside counting one by one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "gpu_writer/lean_choice.h"

using namespace croupier;
using gpu_writer::LeanShare;

namespace {

using Random = std::mt19937_64;

std::vector<std::uint32_t> random_ranks(Random& random) {
    std::vector<std::uint32_t> ranks(1 + random() % 700);
    const auto kind = random() % 5;
    const auto base = static_cast<std::uint32_t>(random());
    for (std::uint32_t& rank : ranks) {
        if (kind == 0) rank = static_cast<std::uint32_t>(random());
        if (kind == 1) rank = base + static_cast<std::uint32_t>(random() % 4);
        if (kind == 2) rank = gpu_writer::rank_of(static_cast<float>(random() % 400) / 16.0F);
        if (kind == 3) rank = random() % 50 == 0 ? 0xFFFFFFFFU : gpu_writer::kEmptyRank;
        if (kind == 4) rank = gpu_writer::rank_of(-static_cast<float>(random() % 1000) * 0.01F);
        rank = std::max(rank, gpu_writer::kEmptyRank);
    }
    return ranks;
}

}  // namespace

TEST_CASE("a search ends soon, on about as many of the best as are wanted") {
    Random random(3);
    for (int round = 0; round < 20'000; ++round) {
        const std::vector<std::uint32_t> ranks = random_ranks(random);
        const auto share = LeanShare::about(1 + static_cast<std::uint32_t>(random() % 120),
                                            static_cast<std::uint32_t>(random() % 20));
        const std::uint32_t top = *std::max_element(ranks.begin(), ranks.end());
        const float reach = random() % 2 == 0 ? static_cast<float>(random() % 16) : 1e9F;
        const std::uint32_t least = gpu_writer::least_rank(top, reach);
        const auto above = [&](std::uint32_t rank) {
            return static_cast<std::uint32_t>(
                std::count_if(ranks.begin(), ranks.end(), [=](std::uint32_t each) { return each > rank; }));
        };
        gpu_writer::RankSearch search(share, top, least);
        int turns = 0;
        while (!search.ended()) {
            REQUIRE(++turns <= 24);
            REQUIRE(search.first() <= search.second());
            search.take(above(search.first()), above(search.second()));
        }
        const std::uint32_t chosen = above(search.rank()) + search.ties();
        const std::uint32_t there = above(least - 1);
        INFO(ranks.size() << " ranks, " << share.wanted << " wanted, " << there << " there, " << chosen);
        REQUIRE(search.rank() >= least - 1);
        if (search.ties() > 0) {
            REQUIRE(chosen == share.wanted);
            REQUIRE(above(search.rank() - 1) > share.most);
        } else {
            REQUIRE(chosen <= share.most);
            REQUIRE((chosen >= share.least || chosen == there));
        }
    }
}
