// A kernel that cannot be launched answers nobody: its pass ends, and whoever asks next has another one.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/gpu_kernels/emulated_queue.h"

using namespace croupier;
using gpu_writer::QueueWord;
using gpu_writer::RequestQueue;
using testing::queue_launches;

namespace {

constexpr std::uint64_t kOpening = 4;

RequestQueue::Opening opening(bool rows_stay) {
    RequestQueue::Opening opened;
    opened.step = 9;
    opened.number = kOpening;
    opened.rows_stay = rows_stay;
    return opened;
}

bool post_at(RequestQueue& queue, std::uint32_t place, std::uint64_t word, std::uint64_t number) {
    const std::vector<std::uint64_t> blocks = {1, 0};
    return queue.post(number, {2, place, blocks, 0, word});
}
bool post_once(RequestQueue& queue, std::uint64_t word, std::uint64_t number = kOpening) {
    return post_at(queue, 2, word, number);
}
// In a pass behind another one the first try is refused: that one may have answered it.
bool post(RequestQueue& queue, std::uint64_t word, std::uint64_t number = kOpening) {
    return post_once(queue, word, number) || post_once(queue, word, number);
}

}  // namespace

TEST_CASE("a block request whose kernel cannot be launched is refused, and has one when it is posted again") {
    const bool rows_stay = GENERATE(false, true);
    const auto queue = testing::make_emulated_queue();
    queue->open(opening(rows_stay));
    queue_launches().to_fail = GENERATE(1, 2);
    while (queue_launches().to_fail > 0) CHECK_FALSE(post_once(*queue, 7));
    REQUIRE(queue_launches().done.empty());
    REQUIRE(post(*queue, 7));
    REQUIRE(queue_launches().done.size() == 1);
    // What the kernel of this pass looks for.
    CHECK(testing::queue_word() == QueueWord::of(queue_launches().done[0].pass, 1));
    testing::take_entry(0);
    REQUIRE(post(*queue, 8));
    CHECK(queue_launches().done.size() == 1);
    CHECK(testing::queue_word() == QueueWord::of(queue_launches().done[0].pass, 2));
}

TEST_CASE(
    "where the kernel behind a step's tokens cannot be launched, its block requests have one of the queue's "
    "own") {
    const bool rows_stay = GENERATE(false, true);
    const auto queue = testing::make_emulated_queue();
    int of_worker = 0;
    const cudaStream_t worker = &of_worker;
    auto opened = opening(rows_stay);
    opened.worker = worker;
    queue->open(opened);
    queue_launches().to_fail = 1;
    REQUIRE_FALSE(queue->answer_in(worker, {}));
    const std::uint64_t failed = QueueWord::pass(testing::queue_word()) - 1;
    REQUIRE(post(*queue, 7));
    REQUIRE(queue_launches().done.size() == 1);
    CHECK(queue_launches().done[0].pass > failed);
    CHECK(queue_launches().done[0].stream != worker);
    CHECK(testing::queue_word() == QueueWord::of(queue_launches().done[0].pass, 1));
}

TEST_CASE("what is asked for of a place in the slice waits until what stood there before is laid") {
    const auto queue = testing::make_emulated_queue();
    queue->open(opening(true));
    REQUIRE(post(*queue, 7));
    // Of the window's next row, or of the same one once more.
    CHECK_FALSE(post(*queue, 8));
    CHECK(post_at(*queue, 3, 9, kOpening));
    testing::take_entry(1);
    CHECK_FALSE(post(*queue, 8));
    testing::take_entry(0);
    CHECK(post(*queue, 8));
    CHECK_FALSE(post(*queue, 10));
    const std::uint64_t pass = queue_launches().done.at(0).pass;
    CHECK(testing::queue_word() == QueueWord::of(pass, 3));
    // A later pass begins when the kernel of this one has ended.
    queue->end_pass(pass);
    CHECK(post(*queue, 10));
}

TEST_CASE("a step's tokens may be awaited again after their kernel could not be launched") {
    const auto queue = testing::make_emulated_queue();
    int of_worker = 0;
    const cudaStream_t worker = &of_worker;
    auto opened = opening(false);
    opened.worker = worker;
    queue->open(opened);
    queue_launches().to_fail = 1;
    REQUIRE_FALSE(queue->answer_in(worker, {}));
    const auto pass = queue->answer_in(worker, {});
    REQUIRE(pass);
    REQUIRE(queue_launches().done.size() == 1);
    CHECK(pass.value() == queue_launches().done[0].pass);
    CHECK(queue_launches().done[0].stream == worker);
    // It has its kernel by now.
    CHECK(queue->answer_in(worker, {}).value() == 0);
}

TEST_CASE("the kernel of a closed queue that cannot be launched opens it for nobody") {
    const auto queue = testing::make_emulated_queue();
    queue->open(opening(true));
    queue->close(kOpening);
    queue_launches().to_fail = 1;
    int of_worker = 0;
    CHECK_FALSE(queue->answer_in(&of_worker, {}));
    CHECK_FALSE(post_once(*queue, 7));
    CHECK(queue_launches().done.empty());
    auto next = opening(true);
    next.number = kOpening + 1;
    queue->open(next);
    CHECK(post(*queue, 7, kOpening + 1));
    CHECK(testing::queue_word() == QueueWord::of(queue_launches().done.at(0).pass, 1));
}
