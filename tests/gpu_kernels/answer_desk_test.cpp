// A kernel that cannot be launched answers nobody: its turn ends, and whoever asks next has another one.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/gpu_kernels/emulated_desk.h"

using namespace croupier;
using gpu_writer::AnswerDesk;
using gpu_writer::DeskWord;
using testing::desk_launches;

namespace {

constexpr std::uint64_t kOpening = 4;

AnswerDesk::Opening opening(bool rows_stay) {
    AnswerDesk::Opening opened;
    opened.step = 9;
    opened.number = kOpening;
    opened.rows_stay = rows_stay;
    return opened;
}

bool post_once(AnswerDesk& desk, std::uint64_t word, std::uint64_t number = kOpening) {
    const std::vector<std::uint64_t> blocks = {1, 0};
    return desk.post(number, {2, blocks, 0, word});
}
// In a turn behind another one the first try is refused: that one may have answered it.
bool post(AnswerDesk& desk, std::uint64_t word, std::uint64_t number = kOpening) {
    return post_once(desk, word, number) || post_once(desk, word, number);
}

}  // namespace

TEST_CASE("a wish whose kernel cannot be launched is refused, and has one when it is posted again") {
    const bool rows_stay = GENERATE(false, true);
    const auto desk = testing::make_emulated_desk();
    desk->open(opening(rows_stay));
    desk_launches().to_fail = GENERATE(1, 2);
    while (desk_launches().to_fail > 0) CHECK_FALSE(post_once(*desk, 7));
    REQUIRE(desk_launches().done.empty());
    REQUIRE(post(*desk, 7));
    REQUIRE(desk_launches().done.size() == 1);
    // What the kernel of this turn looks for.
    CHECK(testing::desk_word() == DeskWord::of(desk_launches().done[0].turn, 1));
    REQUIRE(post(*desk, 8));
    CHECK(desk_launches().done.size() == 1);
    CHECK(testing::desk_word() == DeskWord::of(desk_launches().done[0].turn, 2));
}

TEST_CASE(
    "where the kernel behind a step's tokens cannot be launched, its wishes have one of the desk's own") {
    const bool rows_stay = GENERATE(false, true);
    const auto desk = testing::make_emulated_desk();
    int of_worker = 0;
    const cudaStream_t worker = &of_worker;
    auto opened = opening(rows_stay);
    opened.worker = worker;
    desk->open(opened);
    desk_launches().to_fail = 1;
    REQUIRE_FALSE(desk->answer_in(worker, {}));
    const std::uint64_t failed = DeskWord::turn(testing::desk_word()) - 1;
    REQUIRE(post(*desk, 7));
    REQUIRE(desk_launches().done.size() == 1);
    CHECK(desk_launches().done[0].turn > failed);
    CHECK(desk_launches().done[0].stream != worker);
    CHECK(testing::desk_word() == DeskWord::of(desk_launches().done[0].turn, 1));
}

TEST_CASE("a step's tokens may be awaited again after their kernel could not be launched") {
    const auto desk = testing::make_emulated_desk();
    int of_worker = 0;
    const cudaStream_t worker = &of_worker;
    auto opened = opening(false);
    opened.worker = worker;
    desk->open(opened);
    desk_launches().to_fail = 1;
    REQUIRE_FALSE(desk->answer_in(worker, {}));
    const auto turn = desk->answer_in(worker, {});
    REQUIRE(turn);
    REQUIRE(desk_launches().done.size() == 1);
    CHECK(turn.value() == desk_launches().done[0].turn);
    CHECK(desk_launches().done[0].stream == worker);
    // It has its kernel by now.
    CHECK(desk->answer_in(worker, {}).value() == 0);
}

TEST_CASE("the kernel of a closed desk that cannot be launched opens it for nobody") {
    const auto desk = testing::make_emulated_desk();
    desk->open(opening(true));
    desk->close(kOpening);
    desk_launches().to_fail = 1;
    int of_worker = 0;
    CHECK_FALSE(desk->answer_in(&of_worker, {}));
    CHECK_FALSE(post_once(*desk, 7));
    CHECK(desk_launches().done.empty());
    auto next = opening(true);
    next.number = kOpening + 1;
    desk->open(next);
    CHECK(post(*desk, 7, kOpening + 1));
    CHECK(testing::desk_word() == DeskWord::of(desk_launches().done.at(0).turn, 1));
}
