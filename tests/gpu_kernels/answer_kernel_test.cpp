// How a step's tokens come to the GPU, and how the kernel that brings them ends.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/gpu_kernels/emulated_answer.h"

using namespace croupier;
using gpu_writer::QueueWord;
using gpu_writer::TokenWord;

namespace {

constexpr std::uint64_t kOpening = 40;
constexpr std::uint32_t kTicket = 7;

struct Link {
    explicit Link(std::uint32_t columns, std::uint64_t first_word)
        : word(first_word), delivered(columns, {-5, kTicket - 1}), tokens(columns, -9) {}

    void serve() {
        gpu_writer::QueueMemory queue;
        queue.word = &word;
        queue.relay = &relay;
        testing::serve_link(
            queue, kOpening,
            {delivered.data(), tokens.data(), static_cast<std::uint32_t>(tokens.size()), kTicket});
    }
    void await_relay(std::uint64_t value) {
        while (std::atomic_ref(relay).load() != value) std::this_thread::yield();
    }
    void post(std::uint64_t value) { std::atomic_ref(word).store(value); }
    void deliver(std::uint32_t column) {
        std::atomic_ref(delivered[column]).store(TokenWord{token_of(column), kTicket});
    }
    static std::int32_t token_of(std::uint32_t column) {
        return column % 5 == 3 ? -1 : static_cast<std::int32_t>(column * 1000 + 17);
    }

    std::uint64_t word;
    std::uint64_t relay = QueueWord::of(kOpening - 9, 2);
    std::vector<TokenWord> delivered;
    std::vector<std::int32_t> tokens;
};

}  // namespace

TEST_CASE("tokens come to the GPU as they are delivered, whatever the queue's word was before") {
    const std::uint64_t first_word =
        GENERATE(QueueWord::of(kOpening - 3, 5), QueueWord::of(kOpening, 0), QueueWord::of(kOpening, 1));
    const std::uint32_t columns = GENERATE(1U, 31U, 32U, 255U, 256U, 600U);
    Link link(columns, first_word);
    std::thread courier([&] {
        link.await_relay(first_word);
        // From both ends, and a block request meanwhile.
        for (std::uint32_t i = 0; i < columns; ++i) {
            link.deliver(i % 2 == 0 ? i / 2 : columns - 1 - i / 2);
            if (i == columns / 2) link.post(QueueWord::of(kOpening, 2));
        }
    });
    link.serve();
    courier.join();
    for (std::uint32_t column = 0; column < columns; ++column)
        CHECK(link.tokens[column] == Link::token_of(column));
    // Whoever waits for block requests leaves, though nobody closed the queue.
    CHECK(link.relay == QueueWord::of(kOpening + 1, 0));
}

TEST_CASE("a kernel that brings no tokens runs until its queue is closed") {
    Link link(0, QueueWord::of(kOpening - 3, 5));
    std::thread server([&] {
        link.post(QueueWord::of(kOpening, 1));
        link.await_relay(QueueWord::of(kOpening, 1));
        link.post(QueueWord::of(kOpening + 1, 0));
    });
    link.serve();
    server.join();
    CHECK(link.relay == QueueWord::of(kOpening + 1, 0));
}

TEST_CASE("tokens that are still to come are brought though the queue is closed") {
    Link link(3, QueueWord::of(kOpening + 4, 0));
    std::thread courier([&] {
        link.await_relay(QueueWord::of(kOpening + 4, 0));
        for (std::uint32_t column = 0; column < 3; ++column) link.deliver(column);
    });
    link.serve();
    courier.join();
    for (std::uint32_t column = 0; column < 3; ++column) CHECK(link.tokens[column] == Link::token_of(column));
}
