// A lean step, by the host and by a GPU's kernels: what each lays is what the naive formulation has.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"
#include "tests/gpu_writer/naive_lean.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::LeanCase;

namespace {

std::unique_ptr<testing::LeanSide> side_of(testing::Way way) {
    return way == testing::Way::host ? testing::make_host_lean() : testing::make_gpu_lean();
}

// Some columns' blocks: few, none, all.
std::vector<testing::Asked> random_requests(const LeanCase& of, std::mt19937_64& random) {
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
    const std::vector<testing::Asked> asked = random_requests(of, random);
    INFO(testing::words_of(of) << ": " << asked.size() << " columns ask");
    CHECK((side.answer(of, asked) == testing::naive_slice_of(of, asked)));
}

}  // namespace

TEST_CASE("a lean step of any shape has the maxima, the best blocks and the sums of its rows", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) testing::check_lay(*side, testing::random_case(random));
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
    testing::check_lay(*side, testing::usual_case(151936, 9, 64));
    testing::check_lay(*side, testing::usual_case(128256, 3, 1024));
    // More chunks than a warp has lanes.
    testing::check_lay(*side, testing::usual_case(300000, 2, 64));
    testing::check_lay(*side, testing::stairs_case(1500, 300, proto::Dtype::bf16));
}

TEST_CASE("a lean step under grammar masks tells of what they allow", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    // Of the last one, the ranks of blocks take all shared memory that a kernel has unasked.
    for (const std::uint32_t vocab : {1U, 63U, 65U, 700U, 32000U, 151936U, 262144U})
        testing::check_lay(*side, testing::masked_case(vocab, 9, 64));
}

TEST_CASE("a lean step of as many columns as its kernel has arguments for, and of one more", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    for (const std::uint32_t columns : {64U, 65U, 512U, 513U, 900U}) {
        testing::check_lay(*side, testing::usual_case(700, columns, 32));
    }
}

TEST_CASE("columns of any rows are drawn as all their tokens race", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(5);
    for (std::uint32_t i = 0; i < 60; ++i)
        testing::check_lay(*side, testing::drawn_case(2000 + i * 100, random));
    for (int i = 0; i < 3; ++i) testing::check_lay(*side, testing::drawn_case(151936, random));
}

TEST_CASE("many columns ask at once, more than one launch holds", "[lean]") {
    const auto way = GENERATE(testing::Way::host, testing::Way::store);
    if (!testing::can_run(way)) return;
    const auto side = side_of(way);
    std::mt19937_64 random(3);
    LeanCase of = testing::usual_case(4096, 200, 32);
    check_answer(*side, of, random);
    for (gpu_writer::LeanWant& want : of.wants) want.flags.add(gpu_writer::Want::whole);
    testing::check_lay(*side, of);
}

TEST_CASE("a few lean steps and answers, for a sanitizer of the kernels", "[lean][sanitized]") {
    if (!testing::can_run(testing::Way::store)) return;
    const auto side = side_of(testing::Way::store);
    std::mt19937_64 random(4);
    for (int i = 0; i < 12; ++i) {
        const LeanCase of = testing::random_case(random);
        testing::check_lay(*side, of);
        check_answer(*side, of, random);
    }
}
