#include "sampler/sequence_state.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "allocation_count.h"

namespace croupier::sampler::test {
namespace {

using Tokens = std::vector<std::int32_t>;
using Log = std::span<const std::int32_t>;

std::uint32_t below(std::uint32_t bound, std::mt19937_64& generator) {
    return static_cast<std::uint32_t>(generator() % bound);
}

Tokens random_tokens(std::size_t count, std::uint32_t vocab, std::mt19937_64& generator) {
    Tokens tokens(count);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(below(vocab, generator));
    return tokens;
}

proto::SamplingParams counting(std::int32_t last_n) {
    proto::SamplingParams params;
    params.repetition_penalty = 1.1;
    params.penalty_last_n = last_n;
    return params;
}

proto::SamplingParams with_dry(std::int32_t dry_last_n) {
    proto::SamplingParams params = counting(-1);
    params.dry_multiplier = 0.8;
    params.dry_penalty_last_n = dry_last_n;
    return params;
}

// What a fresh count of the log says of every token.
bool matches_recount(const SequenceState& state, std::uint32_t vocab, const Tokens& history,
                     std::size_t prompt, std::int32_t last_n) {
    std::vector<std::uint32_t> counts(vocab);
    std::set<std::uint32_t> seen;
    const std::size_t window = last_n < 0 ? history.size() : static_cast<std::size_t>(last_n);
    for (std::size_t place = history.size() - std::min(window, history.size()); place < history.size();
         ++place) {
        const auto token = static_cast<std::uint32_t>(history[place]);
        seen.insert(token);
        if (last_n >= 0 || place >= prompt) ++counts[token];
    }
    for (std::uint32_t token = 0; token < vocab; ++token) {
        if (state.occurrences(token) != counts[token]) return false;
        if (state.seen(token) != (seen.count(token) != 0)) return false;
    }
    std::set<std::uint32_t> distinct;
    for (const TokenCounts::Counted& each : state.distinct()) {
        const auto [is_seen, occurrences] = SequenceState::standing_of(each.standing);
        if (!is_seen || occurrences != counts[each.token]) return false;
        distinct.insert(each.token);
    }
    return state.distinct().size() == seen.size() && distinct == seen;
}

// Returns how many tokens stay.
std::size_t change(Tokens& history, std::uint32_t vocab, std::mt19937_64& generator) {
    const std::size_t gone = below(3, generator) == 0 ? below(70, generator) : 0;
    const std::size_t kept = history.size() - std::min(history.size(), gone);
    history.resize(kept);
    const Tokens more = random_tokens(below(12, generator), vocab, generator);
    history.insert(history.end(), more.begin(), more.end());
    if (history.size() > 80) history.resize(80);
    return kept;
}

}  // namespace

TEST_CASE("counts are those of a recount through appends, in parts or at once, rollbacks and new sequences") {
    std::mt19937_64 generator(1);
    constexpr std::uint32_t kVocab = 9;
    SequenceState state(kVocab, 80);
    for (int round = 0; round < 20'000; ++round) {
        const std::int32_t last_n =
            below(2, generator) == 0 ? -1 : static_cast<std::int32_t>(below(30, generator));
        state.begin(counting(last_n), {});
        const std::size_t prompt = below(20, generator);
        Tokens history = random_tokens(prompt, kVocab, generator);
        for (int step = 0; step < 6; ++step) {
            if (step > 0) state.keep(change(history, kVocab, generator));
            const std::size_t split = std::min(prompt, history.size());
            const std::size_t most = below(3, generator) == 0 ? 1 + below(8, generator) : SequenceState::kAll;
            do {
                if (!state.follow(Log(history).first(split), Log(history).subspan(split), most))
                    FAIL("round " << round);
            } while (most != SequenceState::kAll && state.length() != history.size());
            if (state.length() != history.size()) FAIL("round " << round << " step " << step);
            if (!matches_recount(state, kVocab, history, split, last_n)) {
                FAIL("round " << round << " step " << step << " window " << last_n);
            }
        }
    }
}

TEST_CASE("a token that stands more often than a short holds is counted, and counted back") {
    constexpr std::uint32_t kVocab = 3;
    constexpr std::size_t kPrompt = 2;
    const std::int32_t last_n = GENERATE(-1, 33000);
    // Token 1 leaves first, so that token 0, counted elsewhere by then, takes its place.
    Tokens history = {1, 0};
    history.resize(kPrompt + 32760, 0);
    SequenceState state(kVocab, 1U << 17U);
    state.begin(counting(last_n), {});
    const auto follows = [&] {
        const Log log(history);
        return state.follow(log.first(kPrompt), log.subspan(kPrompt)) &&
               matches_recount(state, kVocab, history, kPrompt, last_n);
    };
    for (int more = 0; more < 500; ++more) {
        history.push_back(0);
        REQUIRE(follows());
    }
    for (int less = 0; less < 500; less += 20) {
        history.resize(history.size() - 20);
        REQUIRE(follows());
    }
}

TEST_CASE("truncating to any length leaves the state of the shorter history") {
    std::mt19937_64 generator(2);
    constexpr std::uint32_t kVocab = 7;
    const Tokens history = random_tokens(60, kVocab, generator);
    constexpr std::size_t kPrompt = 20;
    for (const std::int32_t last_n : {-1, 0, 1, 15, 100}) {
        for (std::size_t length = 0; length <= history.size(); ++length) {
            SequenceState state(kVocab, 60);
            state.begin(counting(last_n), {});
            REQUIRE(state.follow(Log(history).first(kPrompt), Log(history).subspan(kPrompt)));
            state.truncate(length);
            const Tokens shorter(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(length));
            CHECK(state.length() == length);
            CHECK(matches_recount(state, kVocab, shorter, kPrompt, last_n));
        }
    }
}

// Tokens from `first` on, some of them the same ones.
Tokens with_replaced(Tokens history, std::size_t first, std::mt19937_64& generator, std::uint32_t vocab) {
    for (std::size_t place = first; place < history.size(); ++place)
        history[place] = static_cast<std::int32_t>(below(vocab, generator));
    return history;
}

TEST_CASE("tokens that were replaced in the log are followed, whatever is known of how many it kept") {
    std::mt19937_64 generator(3);
    constexpr std::uint32_t kVocab = 50;
    constexpr std::size_t kPrompt = 10;
    const Tokens history = random_tokens(100, kVocab, generator);
    const std::int32_t last_n = GENERATE(-1, 0, 7, 64);
    enum class Known { nothing, kept, fewer } known = GENERATE(Known::nothing, Known::kept, Known::fewer);
    for (std::size_t first = 0; first <= history.size(); ++first) {
        Tokens replaced = with_replaced(history, first, generator, kVocab);
        replaced.resize(first + below(static_cast<std::uint32_t>(101 - first), generator));
        replaced.resize(std::max(replaced.size(), kPrompt), 0);
        SequenceState state(kVocab, 100);
        state.begin(counting(last_n), {});
        REQUIRE(state.follow(Log(history).first(kPrompt), Log(history).subspan(kPrompt)));
        if (known == Known::nothing) {
            state.doubt();
        } else {
            state.keep(known == Known::kept ? first
                                            : below(static_cast<std::uint32_t>(first + 1), generator));
        }
        REQUIRE(state.follow(Log(replaced).first(kPrompt), Log(replaced).subspan(kPrompt)));
        CHECK(matches_recount(state, kVocab, replaced, kPrompt, last_n));
    }
}

TEST_CASE("a history is followed by parts, also where it is doubted and replaced between them") {
    std::mt19937_64 generator(11);
    constexpr std::uint32_t kVocab = 20;
    for (int round = 0; round < 300; ++round) {
        SequenceState state(kVocab, 400);
        state.begin(with_dry(-1), {});
        Tokens history = random_tokens(400, kVocab, generator);
        std::size_t kept = 400;
        while (state.length() < history.size()) {
            if (below(3, generator) == 0) {
                kept = below(401, generator);
                history = with_replaced(history, kept, generator, kVocab);
                below(2, generator) == 0 ? state.doubt() : state.keep(kept);
            }
            REQUIRE(state.follow(Log(history).first(30), Log(history).subspan(30), 50));
        }
        REQUIRE(matches_recount(state, kVocab, history, 30, -1));
        SequenceState fresh(kVocab, 400);
        fresh.begin(with_dry(-1), {});
        REQUIRE(fresh.follow(Log(history).first(30), Log(history).subspan(30)));
        for (std::uint32_t token = 0; token < kVocab; ++token)
            if (state.repeat_length(token) != fresh.repeat_length(token)) FAIL("token " << token);
    }
}

TEST_CASE("an id outside the vocabulary is refused, and the tokens before it stand") {
    SequenceState state(10, 20);
    for (const std::int32_t wrong :
         {-1, 10, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
        state.begin(counting(-1), {});
        Tokens output = {4, 5, wrong, 6};
        CHECK_FALSE(state.follow(Tokens{1, 2}, output));
        CHECK(state.length() == 4);
        CHECK(matches_recount(state, 10, {1, 2, 4, 5}, 2, -1));
        output[2] = 9;
        CHECK(state.follow(Tokens{1, 2}, output));
        CHECK(matches_recount(state, 10, {1, 2, 4, 5, 9, 6}, 2, -1));
    }
}

TEST_CASE("a log longer than the longest sequence, or before any begin, is refused") {
    SequenceState state(10, 4);
    CHECK_FALSE(state.follow(Tokens{1}, {}));
    state.begin(counting(-1), {});
    CHECK(state.follow(Tokens{1, 2}, Tokens{3, 4}));
    CHECK_FALSE(state.follow(Tokens{1, 2}, Tokens{3, 4, 5}));
    CHECK(state.length() == 4);
}

TEST_CASE("a new sequence knows nothing of the last one") {
    SequenceState state(10, 20);
    state.begin(with_dry(-1), {});
    REQUIRE(state.follow(Tokens{1, 2, 3, 1, 2}, {}));
    REQUIRE(state.repeats().size() == 1);
    state.begin(with_dry(-1), {});
    CHECK(state.length() == 0);
    CHECK(state.distinct().empty());
    CHECK_FALSE(state.seen(1));
    CHECK(state.repeats().empty());
}

TEST_CASE("a log of garbage that another thread keeps overwriting does no harm") {
    constexpr std::uint32_t kVocab = 8;
    std::vector<std::int32_t> log(200);
    std::atomic<bool> done{false};
    std::thread writer([&] {
        std::mt19937_64 generator(4);
        while (!done.load()) {
            const auto value = static_cast<std::int32_t>(generator());
            const bool wild = below(500, generator) == 0;
            std::atomic_ref(log[below(200, generator)])
                .store(wild ? value : value & static_cast<std::int32_t>(kVocab - 1),
                       std::memory_order_relaxed);
        }
    });
    std::mt19937_64 generator(5);
    SequenceState state(kVocab, 200);
    std::size_t refused = 0;
    for (int round = 0; round < 20'000; ++round) {
        if (round % 50 == 0) {
            proto::SamplingParams params = with_dry(round % 100 == 0 ? -1 : 40);
            params.penalty_last_n = round % 150 == 0 ? 30 : -1;
            state.begin(params, Tokens{1, 3, 2, 1, 2});
        }
        const std::size_t prompt = below(60, generator);
        const std::size_t output = below(140, generator);
        if (!state.follow(Log(log).first(prompt), Log(log).subspan(prompt, output))) ++refused;
        for (const SequenceState::Repeat& repeat : state.repeats()) {
            if (repeat.token >= kVocab) FAIL("token " << repeat.token);
        }
        if (state.length() > prompt + output) FAIL("round " << round);
    }
    done = true;
    writer.join();
    CHECK(refused < 20'000);
    std::mt19937_64 fresh(6);
    const Tokens history = random_tokens(150, kVocab, fresh);
    state.begin(counting(-1), {});
    REQUIRE(state.follow(Log(history).first(50), Log(history).subspan(50)));
    CHECK(matches_recount(state, kVocab, history, 50, -1));
}

// Follows the history from `first` tokens on with changed tokens and rollbacks between; returns the repeats.
std::size_t follow_unsteadily(SequenceState& state, Tokens history, std::size_t first, std::uint32_t vocab) {
    std::size_t repeats = 0;
    for (std::size_t size = first; size <= history.size(); size += 7) {
        std::int32_t& last = history[size - 1];
        if (size % 3 == 0) last = (last + 1) % static_cast<std::int32_t>(vocab);
        if (!state.follow(Log(history).first(50), Log(history).subspan(50, size - 50))) FAIL("at " << size);
        repeats += state.repeats().size();
        state.truncate(size - 5);
    }
    return repeats;
}

TEST_CASE("a state allocates only where its history grows beyond all that it has followed, and seldom") {
    std::mt19937_64 generator(7);
    constexpr std::uint32_t kVocab = 40;
    SequenceState state(kVocab, 5000);
    for (const std::int32_t dry_last_n : {-1, 300}) {
        const Tokens history = random_tokens(5000, kVocab, generator);
        const std::uint64_t before = allocations_so_far();
        state.begin(with_dry(dry_last_n), Tokens{1, 3, 2, 1, 2});
        CHECK(follow_unsteadily(state, history, 100, kVocab) > 0);
        const std::uint64_t grown = allocations_so_far();
        CHECK(grown - before < 150);
        state.truncate(100);
        const std::uint64_t steady = allocations_so_far();
        CHECK(follow_unsteadily(state, history, 100, kVocab) > 0);
        CHECK(allocations_so_far() - steady == 1);  // the history's copy in this test
    }
}

TEST_CASE("counts are those of a recount while the distinct tokens grow from a few to thousands and back") {
    std::mt19937_64 generator(8);
    constexpr std::uint32_t kVocab = 150'000;
    for (const std::int32_t last_n : {-1, 2500}) {
        SequenceState state(kVocab, 20'000);
        state.begin(counting(last_n), {});
        Tokens history;
        for (int step = 0; step < 40; ++step) {
            // Far apart, side by side, and the same ones again.
            const std::uint32_t range = below(2, generator) == 0 ? kVocab : 1 + below(3000, generator);
            const Tokens more = random_tokens(below(1000, generator), range, generator);
            history.insert(history.end(), more.begin(), more.end());
            if (step % 4 == 3)
                history.resize(history.size() -
                               below(static_cast<std::uint32_t>(history.size() + 1), generator));
            const std::size_t prompt = std::min<std::size_t>(history.size(), 100);
            state.truncate(history.size());
            REQUIRE(state.follow(Log(history).first(prompt), Log(history).subspan(prompt)));
            REQUIRE(matches_recount(state, kVocab, history, prompt, last_n));
        }
    }
}

TEST_CASE("a state takes memory by its history, not by the vocabulary or the longest sequence") {
    std::mt19937_64 generator(9);
    constexpr std::uint32_t kVocab = 150'000;
    for (const std::size_t length : {10U, 300U, 1000U, 16'000U}) {
        SequenceState state(kVocab, 1U << 20U);
        state.begin(with_dry(-1), {});
        const Tokens history = random_tokens(length, static_cast<std::uint32_t>(length / 2), generator);
        REQUIRE(state.follow(history, {}));
        CHECK(state.bytes() < 4096 + 128 * length);
    }
    SequenceState plain(kVocab, 1U << 20U);
    plain.begin({}, {});
    REQUIRE(plain.follow(random_tokens(10'000, kVocab, generator), {}));
    CHECK(plain.bytes() < 4096);
    CHECK_FALSE(plain.derives());
}

}  // namespace croupier::sampler::test
