#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "sampler/sequence_state.h"

namespace croupier::sampler::test {
namespace {

using Tokens = std::vector<std::int32_t>;
using Lengths = std::map<std::uint32_t, std::uint32_t>;  // by token

// The penalty grows without an end, so no length is cut.
constexpr double kUncutBase = 1.0000005;

struct Dry {
    std::int32_t allowed_length = 2;
    std::int32_t last_n = -1;
    double base = kUncutBase;
    std::vector<Tokens> breakers;

    proto::SamplingParams params() const {
        proto::SamplingParams params;
        params.dry_multiplier = 0.8;
        params.dry_base = base;
        params.dry_allowed_length = allowed_length;
        params.dry_penalty_last_n = last_n;
        return params;
    }
    Tokens lists() const {
        Tokens lists;
        for (const Tokens& breaker : breakers) {
            lists.push_back(static_cast<std::int32_t>(breaker.size()));
            lists.insert(lists.end(), breaker.begin(), breaker.end());
        }
        return lists;
    }
};

// How many tokens follow the newest breaker: backwards to the first token that begins one, then its longest.
std::size_t unbroken(const Tokens& window, const std::vector<Tokens>& breakers) {
    for (std::size_t begin = window.size(); begin-- > 0;) {
        std::size_t longest = 0;
        for (const Tokens& breaker : breakers) {
            if (breaker.size() > window.size() - begin) continue;
            const auto from = window.begin() + static_cast<std::ptrdiff_t>(begin);
            if (std::equal(breaker.begin(), breaker.end(), from)) longest = std::max(longest, breaker.size());
        }
        if (longest > 0) return window.size() - begin - longest;
    }
    return window.size();
}

Lengths defined_repeats(const Tokens& history, const Dry& dry) {
    const std::size_t size =
        dry.last_n < 0 ? history.size() : std::min(history.size(), static_cast<std::size_t>(dry.last_n));
    const Tokens window(history.end() - static_cast<std::ptrdiff_t>(size), history.end());
    const std::size_t bound = unbroken(window, dry.breakers);
    Lengths found;
    for (std::size_t place = 0; place < size; ++place) {
        std::size_t length = 0;
        while (length < place && window[place - 1 - length] == window[size - 1 - length]) ++length;
        length = std::min(length, bound);
        if (length < static_cast<std::size_t>(dry.allowed_length)) continue;
        if (std::count(dry.breakers.begin(), dry.breakers.end(), Tokens{window[place]}) > 0) continue;
        std::uint32_t& longest = found[static_cast<std::uint32_t>(window[place])];
        longest = std::max(longest, static_cast<std::uint32_t>(length));
    }
    return found;
}

Lengths cut(Lengths lengths, std::uint32_t longest) {
    for (auto& [token, length] : lengths) length = std::min(length, longest);
    return lengths;
}

Lengths answered(SequenceState& state) {
    Lengths lengths;
    for (const SequenceState::Repeat& repeat : state.repeats()) {
        const bool first = lengths.emplace(repeat.token, repeat.length).second;
        if (!first) FAIL("token " << repeat.token << " is answered twice");
        if (state.repeat_length(repeat.token) != repeat.length) FAIL("token " << repeat.token);
    }
    return lengths;
}

class Random {
  public:
    explicit Random(std::uint64_t seed) : generator_(seed) {}
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_() % bound); }
    Tokens tokens(std::size_t count, std::uint32_t vocab) {
        Tokens tokens(count);
        for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(below(vocab));
        return tokens;
    }

  private:
    std::mt19937_64 generator_;
};

Dry random_dry(Random& random, std::uint32_t vocab) {
    Dry dry;
    dry.allowed_length = 1 + static_cast<std::int32_t>(random.below(4));
    dry.base = random.below(3) == 0 ? 1.0 : kUncutBase;
    dry.last_n = random.below(2) == 0 ? -1 : 1 + static_cast<std::int32_t>(random.below(70));
    const std::uint32_t breakers = random.below(2) == 0 ? 0 : 1 + random.below(3);
    for (std::uint32_t i = 0; i < breakers; ++i) {
        dry.breakers.push_back(random.tokens(1 + random.below(4), vocab));
    }
    return dry;
}

// Returns how many tokens stay.
std::size_t change(Tokens& history, Random& random, std::uint32_t vocab) {
    const std::size_t gone = random.below(3) == 0 ? random.below(20) : 0;
    const std::size_t kept = history.size() - std::min(history.size(), gone);
    history.resize(kept);
    const Tokens more = random.tokens(std::min<std::size_t>(64 - kept, random.below(12)), vocab);
    history.insert(history.end(), more.begin(), more.end());
    return kept;
}

Tokens repeated(const Tokens& phrase, std::size_t size) {
    Tokens tokens(size);
    for (std::size_t i = 0; i < size; ++i) tokens[i] = phrase[i % phrase.size()];
    return tokens;
}

Lengths repeats_of(const Tokens& history, const Dry& dry) {
    SequenceState state(100, 64);
    state.begin(dry.params(), dry.lists());
    REQUIRE(state.follow(history, {}));
    return answered(state);
}

}  // namespace

TEST_CASE("DRY finds the repeats of the definition in random histories that grow and shrink") {
    Random random(1);
    SequenceState state(6, 64);
    for (int round = 0; round < 100'000; ++round) {
        const std::uint32_t vocab = 1 + random.below(6);
        const Dry dry = random_dry(random, vocab);
        state.begin(dry.params(), dry.lists());
        Tokens history = random.tokens(random.below(40), vocab);
        const std::size_t prompt = random.below(2) == 0 ? 0 : history.size() / 2;
        for (int step = 0; step < 4; ++step) {
            if (step > 0) state.keep(change(history, random, vocab));
            const auto log = std::span<const std::int32_t>(history);
            const std::size_t split = std::min(prompt, history.size());
            if (!state.follow(log.first(split), log.subspan(split))) FAIL("round " << round);
            const std::uint32_t longest =
                dry.base == 1.0 ? static_cast<std::uint32_t>(dry.allowed_length) : 64;
            if (answered(state) != cut(defined_repeats(history, dry), longest)) {
                FAIL("round " << round << " step " << step);
            }
        }
    }
}

TEST_CASE("DRY finds the repeats of the definition in histories of thousands of tokens") {
    Random random(2);
    for (const std::uint32_t vocab : {2U, 20U, 300U}) {
        for (const std::int32_t last_n : {-1, 700}) {
            SequenceState state(vocab, 4000);
            const Dry dry{.allowed_length = 2, .last_n = last_n, .breakers = {{1, 0}}};
            state.begin(dry.params(), dry.lists());
            Tokens history;
            while (history.size() < 3500) {
                const Tokens more = random.tokens(random.below(300), vocab);
                history.insert(history.end(), more.begin(), more.end());
                history.resize(history.size() -
                               random.below(static_cast<std::uint32_t>(history.size() / 8 + 1)));
                state.truncate(history.size());
                REQUIRE(state.follow({}, history));
                REQUIRE(answered(state) == defined_repeats(history, dry));
            }
        }
    }
}

TEST_CASE("DRY takes back any number of tokens of a text in which some tokens are frequent") {
    Random random(4);
    constexpr std::uint32_t kVocab = 2000;
    SequenceState state(kVocab, 4000);
    const Dry dry{.allowed_length = 1, .breakers = {{0}, {1, 2}}};
    state.begin(dry.params(), dry.lists());
    Tokens history;
    for (int step = 0; step < 300; ++step) {
        // Of a frequent token there are hundreds of continuations, of most tokens one.
        Tokens more = random.tokens(random.below(60), kVocab);
        for (std::int32_t& token : more) token %= 1 << random.below(12);
        history.insert(history.end(), more.begin(), more.end());
        history.resize(history.size() - random.below(static_cast<std::uint32_t>(
                                            history.size() / (step % 50 == 49 ? 1 : 20) + 1)));
        state.truncate(history.size());
        REQUIRE(state.follow({}, history));
        REQUIRE(answered(state) == defined_repeats(history, dry));
        CHECK(state.repeat_length(kVocab - 1) == 0);
    }
}

TEST_CASE("DRY cuts a length only where the penalty has stopped to grow") {
    Random random(3);
    for (const double base : {1.0, 30.0, 100.0}) {
        const std::uint32_t exponent =
            base == 1.0 ? 0 : static_cast<std::uint32_t>(88.7228391 / std::log(base));
        for (const std::int32_t last_n : {-1, 300}) {
            const Dry dry{.allowed_length = 2, .last_n = last_n, .base = base, .breakers = {}};
            SequenceState state(4, 512);
            state.begin(dry.params(), dry.lists());
            Tokens history = repeated(random.tokens(1 + random.below(7), 4), 200);
            for (int step = 0; step < 200; ++step) {
                const std::int32_t periodic = history[history.size() - 5];
                history.push_back(random.below(30) == 0 ? random.tokens(1, 4).front() : periodic);
                REQUIRE(state.follow({}, history));
                const Lengths lengths = answered(state);
                const Lengths defined = defined_repeats(history, dry);
                REQUIRE(cut(lengths, 2 + exponent) == cut(defined, 2 + exponent));
                for (const auto& [token, length] : lengths) REQUIRE(length <= defined.at(token));
            }
        }
    }
}

TEST_CASE("a repeat shorter than the allowed length is no repeat") {
    CHECK(repeats_of({7, 8, 9, 1, 7, 8}, {.breakers = {}}) == Lengths{{9, 2}});
    CHECK(repeats_of({7, 8, 9, 1, 7, 8}, {.allowed_length = 3, .breakers = {}}).empty());
}

TEST_CASE("a token that has followed several repeats counts with the longest") {
    CHECK(repeats_of({5, 7, 8, 9, 7, 8, 9, 5, 7, 8}, {.breakers = {}}) == Lengths{{9, 3}});
    CHECK(repeats_of({5, 7, 8, 9, 1, 7, 8, 4, 5, 7, 8}, {.breakers = {}}) == Lengths{{9, 3}, {4, 2}});
}

TEST_CASE("what a token follows across a breaker does not count") {
    const Tokens history = {3, 7, 8, 9, 1, 3, 7, 8};
    CHECK(repeats_of(history, {.breakers = {{3}}}) == Lengths{{9, 2}});
    CHECK(repeats_of(history, {.breakers = {{1, 3}}}) == Lengths{{9, 2}});
    CHECK(repeats_of(history, {.breakers = {{3, 7}}}).empty());
    CHECK(repeats_of(history, {.breakers = {{8}}}).empty());
    CHECK(repeats_of(history, {.breakers = {{4}, {8, 8}}}) == Lengths{{9, 3}});
}

TEST_CASE("a breaker inside a longer one hides the longer one's end") {
    CHECK(repeats_of({5, 6, 7, 8, 9, 1, 5, 6, 7, 8}, {.breakers = {{5, 6, 7, 8}, {6}}}) == Lengths{{9, 2}});
    CHECK(repeats_of({5, 6, 7, 8, 9, 1, 5, 6, 7, 8},
                     {
                         .breakers = {{5, 6, 7}, {5}},
                     })
              .empty());
}

TEST_CASE("a token that is a breaker by itself is never penalised") {
    CHECK(repeats_of({7, 8, 9, 1, 7, 8}, {.breakers = {{9}}}).empty());
    CHECK(repeats_of({7, 8, 9, 1, 7, 8}, {.breakers = {{9, 9}}}) == Lengths{{9, 2}});
}

TEST_CASE("DRY's window hides what came before it") {
    const Tokens history = {7, 8, 9, 1, 7, 8};
    CHECK(repeats_of(history, {.last_n = 6, .breakers = {}}) == Lengths{{9, 2}});
    CHECK(repeats_of(history, {.last_n = 5, .breakers = {}}).empty());
}

TEST_CASE("DRY is off with a multiplier of 0, an empty window, or an order without it") {
    const Tokens history = {7, 8, 9, 1, 7, 8};
    proto::SamplingParams on = Dry{.breakers = {}}.params();
    proto::SamplingParams no_multiplier = on;
    no_multiplier.dry_multiplier = 0.0;
    proto::SamplingParams no_window = on;
    no_window.dry_penalty_last_n = 0;
    proto::SamplingParams not_in_order = on;
    not_in_order.order = {proto::Step::penalties, proto::Step::temperature};
    proto::SamplingParams in_order = on;
    in_order.order = {proto::Step::temperature, proto::Step::dry};
    SequenceState state(10, 10);
    const auto count = [&](const proto::SamplingParams& params) {
        state.begin(params, {});
        REQUIRE(state.follow(history, {}));
        return state.repeats().size();
    };
    CHECK(count(on) == 1);
    CHECK(count(no_multiplier) == 0);
    CHECK(count(no_window) == 0);
    CHECK(count(not_in_order) == 0);
    CHECK(count(in_order) == 1);
}

TEST_CASE("breakers of the last sequence do not act on the next") {
    SequenceState state(10, 10);
    const Tokens history = {7, 8, 9, 1, 7, 8};
    const Tokens breakers = {1, 9, 1, 8};
    state.begin(Dry{.breakers = {}}.params(), breakers);
    REQUIRE(state.follow(history, {}));
    CHECK(answered(state).empty());
    state.begin(Dry{.breakers = {}}.params(), {});
    REQUIRE(state.follow(history, {}));
    CHECK(answered(state) == Lengths{{9, 2}});
}

TEST_CASE("breakers that are malformed or outside the vocabulary do no harm") {
    SequenceState state(10, 10);
    const Tokens history = {7, 8, 9, 1, 7, 8};
    for (const Tokens& lists : {Tokens{-1}, Tokens{5, 1}, Tokens{0, 0}, Tokens{1, 10}, Tokens{1, -8},
                                Tokens{2, 8, 1'000'000}, Tokens{0x7FFFFFFF}, Tokens{-0x7FFFFFFF - 1, 8}}) {
        state.begin(Dry{.breakers = {}}.params(), lists);
        REQUIRE(state.follow(history, {}));
        CHECK(answered(state) == Lengths{{9, 2}});
    }
}

TEST_CASE("a phrase said ten thousand times is followed and asked at every token") {
    constexpr std::size_t kTokens = 20'000;
    for (const Tokens& phrase : {Tokens{1}, Tokens{1, 2}, Tokens{1, 1, 2}, Tokens{1, 2, 3, 4, 5, 6, 7}}) {
        for (const double base : {1.75, kUncutBase}) {
            const Dry dry{.base = base, .breakers = {}};
            SequenceState state(8, kTokens);
            state.begin(dry.params(), {});
            const Tokens history = repeated(phrase, kTokens);
            const auto log = std::span<const std::int32_t>(history);
            for (std::size_t size = 1; size <= kTokens; ++size) {
                if (!state.follow({}, log.first(size))) FAIL("at " << size);
                if (base != kUncutBase) state.repeats();
            }
            const auto longest = static_cast<std::uint32_t>(kTokens - phrase.size());
            const auto next = static_cast<std::uint32_t>(phrase[kTokens % phrase.size()]);
            const Lengths lengths = answered(state);
            REQUIRE(lengths.count(next) == 1);
            CHECK(lengths.at(next) >= (base == kUncutBase ? longest : 160));
            state.truncate(3);
            REQUIRE(state.follow({}, log.first(40)));
            CHECK(answered(state) == defined_repeats(repeated(phrase, 40), dry));
        }
    }
}

}  // namespace croupier::sampler::test
