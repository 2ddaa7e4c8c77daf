#include "tests/gpu_writer/lean_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tests/gpu_writer/naive_lean.h"

namespace croupier::testing {
namespace {

// As samplers rely on it: kSentWeightError of sampler/row_mass.h.
bool near(double found, double expected) {
    return found == Approx(expected).epsilon(5e-6).margin(0);
}

bool is_same(const proto::race::Draw& found, const proto::race::Draw& expected) {
    return found.key == expected.key && found.temperature == expected.temperature &&
           found.token == expected.token && found.score == expected.score;
}

// How many are told of is not fixed exactly, but they are the best, and what is told of the others bounds
// them.
void check_racers(const LaidColumn& found, const NaiveColumn& naive, const gpu_writer::LeanWant& want) {
    const proto::Racers& racers = found.racers;
    const auto due = static_cast<std::size_t>(
        std::count_if(naive.racers.begin(), naive.racers.end(),
                      [&](const proto::Racer& each) { return each.score > naive.told_above; }));
    REQUIRE(racers.count <= proto::kMostRacers);
    // A list of all entries within reach needs no racers.
    const auto reaches = [&] {
        const float least = naive.entries[0].logit - want.reach;
        // A bar of -0 lies below 0.
        const bool is_below_zero = least == 0 && found.list.above == 0 && std::signbit(found.list.above);
        return (found.list.above < least || is_below_zero) && found.list.count <= 512;
    };
    if (naive.lists && want.reach < std::numeric_limits<float>::infinity() && reaches()) {
        CHECK(racers.count == 0);
        CHECK_FALSE(found.head.flags.has(proto::Sent::draw_beside));
        return;
    }
    CHECK(racers.count >= std::min<std::size_t>(due, proto::kMostRacers));
    CHECK((found.head.flags.has(proto::Sent::draw_beside)) == (racers.count > 0));
    if (racers.count == 0) return;
    REQUIRE(naive.racers.size() >= racers.count);
    // The winner, and the next one that stands before it.
    std::vector<bool> weighed(racers.count);
    const auto stands_before = [&](const proto::Racer& a, const proto::Racer& b) {
        return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    };
    weighed[0] = true;
    std::uint32_t next = 1;
    while (next < racers.count && !stands_before(racers.best[next], racers.best[0])) ++next;
    if (next < racers.count) weighed[next] = true;
    for (std::uint32_t i = 0; i < racers.count; ++i) {
        INFO("racer " << i << " is " << racers.best[i].token << " for " << naive.racers[i].token);
        CHECK(racers.best[i].token == naive.racers[i].token);
        CHECK(racers.best[i].score == naive.racers[i].score);
        CHECK(racers.best[i].logit == naive.racers[i].logit);
        const bool summed = weighed[i] && want.flags.has(request::Want::sum_at_scale);
        INFO("before it " << racers.best[i].before);
        CHECK((summed ? near(racers.best[i].before, naive.before[i]) : std::isnan(racers.best[i].before)));
    }
    const bool others = naive.racers.size() > racers.count;
    INFO("rival " << racers.rival);
    CHECK((!others || naive.racers[racers.count].score <= racers.rival));
    CHECK(racers.rival <= racers.best[racers.count - 1].score);
    const float rival = racers.count > 1 ? racers.best[1].score : racers.rival;
    CHECK(is_same(found.head.draw,
                  {want.key, want.temperature, racers.best[0].token, racers.best[0].score, rival}));
    CHECK(found.head.draw.rival == rival);
}

// All above a value and no others: as many as are wanted, unless there are no more within reach, or so many
// are alike that they have no room.
void check_list(const LeanCase& of, const LaidColumn& found, const NaiveColumn& naive,
                const gpu_writer::LeanWant& want) {
    if (!naive.lists) return;
    const std::size_t room =
        proto::lean_layout_of(of.geometry, of.rank).room_for_entries(found.before_list, naive.taken);
    REQUIRE(found.list.count <= room);
    REQUIRE(found.entries.size() == found.list.count);
    const auto in_order = [](std::span<const proto::BestEntry> entries) {
        std::vector<std::pair<std::uint32_t, float>> sorted;
        sorted.reserve(entries.size());
        for (const proto::BestEntry& each : entries) sorted.emplace_back(each.token, each.logit);
        std::sort(sorted.begin(), sorted.end());
        return sorted;
    };
    const std::size_t count = found.list.count;
    const auto end = naive.entries.begin() + static_cast<std::ptrdiff_t>(count);
    REQUIRE(count <= naive.entries.size());
    CHECK(in_order(found.entries) == in_order(std::span(naive.entries).first(count)));
    CHECK((count == 0 || naive.entries[count - 1].logit >= found.list.above));
    if (count == naive.entries.size()) return;
    const float next = end->logit;
    CHECK(next <= found.list.above);
    const bool in_reach = next >= naive.entries[0].logit - want.reach;
    if (count >= want.by_maximum || !in_reach) return;
    const auto alike = static_cast<std::size_t>(
        std::count_if(naive.entries.begin(), naive.entries.end(),
                      [&](const proto::BestEntry& each) { return each.logit >= next; }));
    CHECK(alike > room);
}

// Never more than a block weighs, and less by a step or two.
void check_weights(const std::vector<std::uint8_t>& found, const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    const auto weight_of = [](int code) { return std::exp2(code / double{proto::kWeightSteps}); };
    for (std::size_t block = 0; block < found.size(); ++block) {
        INFO("block " << block << " weighs " << expected[block] << ", by its byte " << int{found[block]});
        // What has no finite largest entry weighs nothing here.
        CHECK((found[block] == 0 || weight_of(found[block]) <= expected[block]));
        CHECK(weight_of(found[block] + 2) >= expected[block]);
    }
}

// Of each sum no more is known where it is more than a float holds. Of tiny numbers, that they are.
bool is_near_or_beyond(double found, double expected) {
    constexpr double kMost = 1e36;
    constexpr double kLeast = 1e-30;
    if (std::abs(expected) > kMost && !std::isfinite(found)) return true;
    return found == Approx(expected).epsilon(1e-5).margin(kLeast);
}

void check_spread(const proto::RowSpread& found, const proto::RowSpread& expected) {
    CHECK(found.tokens == expected.tokens);
    CAPTURE(found.distances, expected.distances, found.squares, expected.squares);
    CHECK(is_near_or_beyond(found.distances, expected.distances));
    CHECK(is_near_or_beyond(found.squares, expected.squares));
    CHECK(near(found.weight, expected.weight));
    INFO("moments " << found.moments << " for " << expected.moments);
    CHECK(found.moments == Approx(expected.moments).epsilon(2e-5).margin(1e-7 * expected.weight));
}

void check_column(const LeanCase& of, const Laid& laid, std::uint32_t column) {
    const LaidColumn found = laid_column(of, laid, column);
    const NaiveColumn naive = naive_column(of, column);
    INFO(words_of(of) << ": column " << column << ", weights " << found.head.weight << " for "
                      << naive.head.weight << ", " << found.head.weight_at_scale << " for "
                      << naive.head.weight_at_scale);
    constexpr proto::SentFlags kRacers = proto::Sent::draw_beside | proto::Sent::race_best;
    proto::SentFlags others = found.head.flags;
    others.remove(kRacers);
    CHECK(others == naive.head.flags);
    CHECK((!found.head.flags.has_any(kRacers) || (found.head.flags & kRacers) == kRacers));
    check_racers(found, naive, of.wants[column]);
    check_list(of, found, naive, of.wants[column]);
    CHECK(found.named == naive.named);
    if (naive.names) CHECK(found.names.word == of.names[of.wants[column].names_line * 16U + 1]);
    CHECK(found.head.scale == naive.head.scale);
    INFO("token " << found.head.draw.token << " for " << naive.head.draw.token);
    if (found.racers.count == 0) CHECK(is_same(found.head.draw, naive.head.draw));
    CHECK(near(found.head.weight, naive.head.weight));
    CHECK(near(found.head.weight_at_scale, naive.head.weight_at_scale));
    check_spread(found.spread, naive.spread);
    CHECK(found.maxima == naive.maxima);
    REQUIRE(found.head.sent == found.sent.size());
    CAPTURE(found.sent, naive.choices);
    REQUIRE(std::find(naive.choices.begin(), naive.choices.end(), found.sent) != naive.choices.end());
    std::vector<std::uint32_t> codes;
    for (const std::uint32_t block : found.sent) {
        const auto first = naive.codes.begin() + std::ptrdiff_t{block} * 64;
        codes.insert(codes.end(), first, first + 64);
    }
    CHECK(found.codes == codes);
    check_weights(found.weights, naive.weights);
}

std::vector<std::uint64_t> all_bits(const LeanCase& of) {
    return std::vector<std::uint64_t>(of.geometry.tiles(of.rank) * of.geometry.tile / 64 + 1,
                                      ~std::uint64_t{0});
}

}  // namespace

std::string words_of(const LeanCase& of) {
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    return "dtype " + std::to_string(static_cast<int>(of.geometry.dtype)) + ", ids " +
           std::to_string(shard.first_id) + " + " + std::to_string(shard.count) + " of " +
           std::to_string(of.geometry.vocab) + ", tile " + std::to_string(of.geometry.tile) + ", " +
           std::to_string(of.columns()) + " columns";
}

void check_lay(LeanSide& side, const LeanCase& of) {
    const Laid laid = side.lay(of);
    std::vector<Asked> whole;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        check_column(of, laid, column);
        if (of.wants[column].flags.has(request::Want::whole)) whole.push_back({column, all_bits(of)});
    }
    INFO(words_of(of) << ": the slice");
    CHECK((laid.slice == naive_slice_of(of, whole)));
}

void check_same_blocks(const LeanCase& of, const Laid& one, const Laid& other) {
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        INFO(words_of(of) << ": column " << column);
        REQUIRE(laid_column(of, one, column).sent == laid_column(of, other, column).sent);
    }
}

}  // namespace croupier::testing
