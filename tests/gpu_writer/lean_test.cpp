// A lean step, by the host and by a GPU's kernels: what each lays is what the naive formulation has.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/naive_lean.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::LeanCase;

namespace {

std::unique_ptr<testing::LeanSide> side_of(testing::Way way) {
    return way == testing::Way::host ? testing::make_host_lean() : testing::make_gpu_lean();
}

std::string words_of(const LeanCase& of) {
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    return "dtype " + std::to_string(static_cast<int>(of.geometry.dtype)) + ", ids " +
           std::to_string(shard.first_id) + " + " + std::to_string(shard.count) + " of " +
           std::to_string(of.geometry.vocab) + ", tile " + std::to_string(of.geometry.tile) + ", " +
           std::to_string(of.columns()) + " columns";
}

bool near(double found, double expected) {
    return found == Approx(expected).epsilon(1e-5).margin(0);
}

bool is_same(const proto::race::Draw& found, const proto::race::Draw& expected) {
    return found.key == expected.key && found.temperature == expected.temperature &&
           found.token == expected.token && found.score == expected.score;
}

void check_column(const LeanCase& of, const testing::Laid& laid, std::uint32_t column) {
    const testing::LaidColumn found = testing::laid_column(of, laid, column);
    const testing::NaiveColumn naive = testing::naive_column(of, column);
    INFO(words_of(of) << ": column " << column << ", weights " << found.head.weight << " for "
                      << naive.head.weight << ", " << found.head.weight_at_scale << " for "
                      << naive.head.weight_at_scale);
    CHECK(found.head.flags == naive.head.flags);
    CHECK(found.head.scale == naive.head.scale);
    INFO("token " << found.head.draw.token << " for " << naive.head.draw.token);
    CHECK(is_same(found.head.draw, naive.head.draw));
    CHECK(near(found.head.weight, naive.head.weight));
    CHECK(near(found.head.weight_at_scale, naive.head.weight_at_scale));
    CHECK(found.maxima == naive.maxima);
    CHECK(found.head.sent == naive.head.sent);
    REQUIRE(found.sent == naive.sent);
    std::vector<std::uint32_t> codes;
    for (const std::uint32_t block : naive.sent) {
        const auto first = naive.codes.begin() + std::ptrdiff_t{block} * 64;
        codes.insert(codes.end(), first, first + 64);
    }
    CHECK(found.codes == codes);
}

std::vector<std::uint64_t> all_bits(const LeanCase& of) {
    return std::vector<std::uint64_t>(of.geometry.tiles(of.rank) * of.geometry.tile / 64 + 1,
                                      ~std::uint64_t{0});
}

void check_lay(testing::LeanSide& side, const LeanCase& of) {
    const testing::Laid laid = side.lay(of);
    std::vector<testing::Asked> whole;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        check_column(of, laid, column);
        if ((of.wants[column].flags & gpu_writer::kWhole) != 0) whole.push_back({column, all_bits(of)});
    }
    INFO(words_of(of) << ": the slice");
    CHECK((laid.slice == testing::naive_slice_of(of, whole)));
}

// Some columns' blocks: few, none, all.
std::vector<testing::Asked> random_wishes(const LeanCase& of, std::mt19937_64& random) {
    std::vector<testing::Asked> asked;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        if (random() % 2 == 0) continue;
        std::vector<std::uint64_t> bitmap(of.blocks() / 64 + 1);
        const std::uint64_t one_in = std::uint64_t{1} << random() % 8;
        for (std::uint32_t block = 0; block < of.blocks(); ++block) {
            if (random() % one_in == 0) bitmap[block / 64] |= std::uint64_t{1} << block % 64;
        }
        asked.push_back({column, bitmap});
    }
    return asked;
}

void check_answer(testing::LeanSide& side, const LeanCase& of, std::mt19937_64& random) {
    const std::vector<testing::Asked> asked = random_wishes(of, random);
    INFO(words_of(of) << ": " << asked.size() << " columns ask");
    CHECK((side.answer(of, asked) == testing::naive_slice_of(of, asked)));
}

}  // namespace

TEST_CASE("a lean step of any shape has the maxima, the best blocks and the sums of its rows", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) check_lay(*side, testing::random_case(random));
}

TEST_CASE("blocks that are asked for are laid at their places in the slice, and nothing else", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(2);
    for (int i = 0; i < 300; ++i) check_answer(*side, testing::random_case(random), random);
}

TEST_CASE("a lean step of a usual vocabulary", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    check_lay(*side, testing::usual_case(151936, 9, 64));
    check_lay(*side, testing::usual_case(128256, 3, 1024));
}

TEST_CASE("columns of any rows are drawn as all their tokens race", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(5);
    for (std::uint32_t i = 0; i < 60; ++i) check_lay(*side, testing::drawn_case(2000 + i * 100, random));
    for (int i = 0; i < 3; ++i) check_lay(*side, testing::drawn_case(151936, random));
}

TEST_CASE("many columns ask at once, more than one launch holds", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(3);
    LeanCase of = testing::usual_case(4096, 200, 32);
    check_answer(*side, of, random);
    for (gpu_writer::LeanWant& want : of.wants) want.flags |= gpu_writer::kWhole;
    check_lay(*side, of);
}

TEST_CASE("a few lean steps and answers, for a sanitizer of the kernels", "[lean][sanitized]") {
    if (!testing::can_run(testing::Way::store)) return;
    const auto side = side_of(testing::Way::store);
    std::mt19937_64 random(4);
    for (int i = 0; i < 12; ++i) {
        const LeanCase of = testing::random_case(random);
        check_lay(*side, of);
        check_answer(*side, of, random);
    }
}
