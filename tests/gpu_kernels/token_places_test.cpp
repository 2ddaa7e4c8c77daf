// Tokens on their way to the GPU: a word that an earlier step left is not taken for a later one's, whichever
// their tickets.
#include "gpu_writer/token_places.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/gpu_kernels/emulated_answer.h"

using namespace croupier;
using gpu_writer::QueueWord;
using gpu_writer::TokenPlaces;
using gpu_writer::TokenWord;

namespace {

constexpr std::uint64_t kTicketPeriod = std::uint64_t{1} << 32U;
constexpr std::uint32_t kColumns = 6;

struct Places {
    explicit Places(std::uint32_t its_count)
        : count(its_count), words(std::size_t{count} * kColumns), places(words, count) {}

    bool has_any(std::uint64_t ticket) const {
        bool any = false;
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            const TokenWord& word = words[places.first_of(ticket) + column];
            any = any || word.ticket == TokenPlaces::tag_of(ticket);
        }
        return any;
    }

    std::uint32_t count;
    std::vector<TokenWord> words;
    TokenPlaces places;
};

}  // namespace

TEST_CASE("the GPU takes no token that an await 2^32 awaits ago brought") {
    const std::uint64_t before = GENERATE(std::uint64_t{1}, 2U, 3U, 4U);
    Places on(4);
    std::vector<std::int32_t> tokens(kColumns, -9);
    std::uint64_t word = QueueWord::of(3, 1);
    std::uint64_t relay = 0;
    gpu_writer::QueueMemory queue;
    queue.word = &word;
    queue.relay = &relay;
    on.places.begin(before);
    for (std::uint32_t column = 0; column < kColumns; ++column) on.places.put(before, column, 100);
    // Steps of fewer columns since then.
    on.places.begin(before + 4);
    on.places.put(before + 4, 0, 50);

    // Each place once: the first four awaits after the tickets have come round.
    for (std::uint64_t ticket = kTicketPeriod; ticket < before + kTicketPeriod; ++ticket)
        on.places.begin(ticket);
    const std::uint64_t ticket = before + kTicketPeriod;
    on.places.begin(ticket);
    std::thread courier([&] {
        while (std::atomic_ref(relay).load() != word) std::this_thread::yield();
        for (std::uint32_t column = 0; column < kColumns; ++column)
            on.places.put(ticket, column, static_cast<std::int32_t>(column));
    });
    testing::serve_link(
        queue, 3,
        {on.words.data() + on.places.first_of(ticket), tokens.data(), kColumns, TokenPlaces::tag_of(ticket)});
    courier.join();
    CHECK(tokens == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("no place has a token of the ticket that begins there, before and after tickets come round") {
    const std::uint32_t count = GENERATE(2U, 6U, 8U, 128U);
    Places on(count);
    std::uint64_t random = 1;
    const auto use = [&](std::uint64_t first, std::uint64_t tickets) {
        for (std::uint64_t ticket = first; ticket < first + tickets; ++ticket) {
            on.places.begin(ticket);
            REQUIRE_FALSE(on.has_any(ticket));
            for (std::uint32_t column = 0; column < kColumns; ++column) {
                random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                if (random >> 63U != 0) on.places.put(ticket, column, 7);
            }
        }
    };
    const std::uint64_t rounds = std::uint64_t{8} * count;
    // The same low bits three times over; what lies between stores nothing.
    use(1, rounds);
    use(kTicketPeriod - rounds, 2 * rounds);
    use(2 * kTicketPeriod - rounds, 2 * rounds);
    // What a cleared word says, no later ticket of its place is.
    for (std::uint64_t ticket = 0; ticket < count; ++ticket) {
        const std::uint64_t cleared = kTicketPeriod + static_cast<std::uint32_t>(~ticket);
        CHECK(on.places.first_of(cleared) != on.places.first_of(kTicketPeriod + ticket));
    }
}
