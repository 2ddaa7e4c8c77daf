#include "tests/gpu_writer/lean_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
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

// Of those that draw, who looks at fewer of the others has a bound for what they score.
bool bounds_others(const proto::race::Draw& found, const proto::race::Draw& expected) {
    return expected.rival <= found.rival && found.rival <= found.score;
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
    CHECK(found.head.flags == naive.head.flags);
    CHECK(found.head.scale == naive.head.scale);
    INFO("token " << found.head.draw.token << " for " << naive.head.draw.token);
    CHECK(is_same(found.head.draw, naive.head.draw));
    INFO("rival " << found.head.draw.rival << " for " << naive.head.draw.rival);
    CHECK(bounds_others(found.head.draw, naive.head.draw));
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
        if ((of.wants[column].flags & gpu_writer::kWhole) != 0) whole.push_back({column, all_bits(of)});
    }
    INFO(words_of(of) << ": the slice");
    CHECK((laid.slice == naive_slice_of(of, whole)));
}

}  // namespace croupier::testing
