#include "daemon/worker/step_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

using namespace croupier;
using daemon::divide_windows;
using Columns = std::vector<std::uint32_t>;

namespace {

Columns divided(const Columns& owners, std::uint32_t lanes) {
    Columns lane_of(owners.size());
    divide_windows(owners, lanes, lane_of);
    return lane_of;
}

std::uint32_t largest_share(const Columns& lane_of, std::uint32_t lanes) {
    Columns loads(lanes);
    for (const std::uint32_t lane : lane_of) ++loads[lane];
    return *std::max_element(loads.begin(), loads.end());
}

std::uint32_t rounded_up(std::size_t columns, std::uint32_t lanes) {
    return static_cast<std::uint32_t>((columns + lanes - 1) / lanes);
}

}  // namespace

TEST_CASE("columns that nobody owns are divided evenly, in blocks") {
    for (const std::uint32_t lanes : {1U, 3U, 14U, 300U}) {
        for (const std::size_t columns : {1U, 2U, 14U, 100U, 256U}) {
            const Columns lane_of = divided(Columns(columns), lanes);
            CHECK(largest_share(lane_of, lanes) == rounded_up(columns, lanes));
            CHECK(std::is_sorted(lane_of.begin(), lane_of.end()));
            CHECK(lane_of.back() < lanes);
        }
    }
}

TEST_CASE("an owner keeps its columns, wherever they stand, and garbage owns nothing") {
    CHECK(divided({2, 0, 1, 0}, 2) == Columns{1, 0, 0, 1});
    CHECK(divided({9, ~0U, 3, 0}, 2) == Columns{0, 0, 1, 1});
}

TEST_CASE("an owner of too many columns keeps a quarter more than its share") {
    const Columns lane_of = divided(Columns(64, 1), 4);
    CHECK(std::count(lane_of.begin(), lane_of.end(), 0U) == 16 + 4 + 1);
    CHECK(largest_share(lane_of, 4) == 21);
}

TEST_CASE("a division that sees what others have begun to own since is the same division") {
    std::mt19937_64 generator(1);
    for (int round = 0; round < 2000; ++round) {
        const auto lanes = static_cast<std::uint32_t>(1 + generator() % 20);
        Columns owners(1 + generator() % 200);
        for (std::uint32_t& owner : owners) owner = static_cast<std::uint32_t>(generator() % (2 * lanes + 2));
        const Columns first = divided(owners, lanes);
        for (std::size_t column = 0; column < owners.size(); ++column) {
            const bool owned = owners[column] != 0 && owners[column] <= lanes;
            if (!owned && generator() % 2 == 0) owners[column] = first[column] + 1;
        }
        REQUIRE(divided(owners, lanes) == first);
    }
}

// Each step 256 of 300 live sequences, of which each ends with a chance of 1 to 200 and another comes.
TEST_CASE("a step's largest share stays near the mean while sequences come and go, and few change hands") {
    constexpr std::uint32_t kLanes = 14;
    constexpr std::uint32_t kBatch = 256;
    std::mt19937_64 generator(2);
    Columns live(300);
    Columns order(live.size());
    std::iota(order.begin(), order.end(), 0U);
    std::uint32_t largest = 0;
    std::uint32_t moved = 0;
    std::uint64_t sum = 0;
    constexpr int kSteps = 2000;
    for (int step = 0; step < kSteps; ++step) {
        std::shuffle(order.begin(), order.end(), generator);
        Columns owners;
        for (std::uint32_t column = 0; column < kBatch; ++column) owners.push_back(live[order[column]]);
        const Columns lane_of = divided(owners, kLanes);
        for (std::uint32_t column = 0; column < kBatch; ++column) {
            if (owners[column] != 0 && owners[column] != lane_of[column] + 1) ++moved;
            live[order[column]] = lane_of[column] + 1;
        }
        const std::uint32_t share = largest_share(lane_of, kLanes);
        sum += share;
        if (step > 0) largest = std::max(largest, share);
        for (std::uint32_t& owner : live) owner = generator() % 200 == 0 ? 0 : owner;
    }
    const double mean = static_cast<double>(kBatch) / kLanes;
    CAPTURE(static_cast<double>(sum) / kSteps / mean, largest / mean, moved);
    CHECK(largest <= 24);
    CHECK(static_cast<double>(sum) / kSteps < 1.25 * mean);
    CHECK(moved < kSteps / 2);
}
