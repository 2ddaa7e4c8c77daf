// What samplers derive of a sequence's stop strings and JSON values, by turns, over truncates that they see
// or do not see.
#include "daemon/worker/stop_search.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "daemon/worker/sequence_states.h"
#include "proto/stop_words.h"
#include "testing/random_json.h"
#include "testing/text_reference.h"

namespace croupier::daemon {
namespace {

using testing::OtherEnd;
using testing::Pieces;

constexpr std::uint32_t kIds = 60;
constexpr int kDecisions = 200'000;

std::vector<std::string> random_stops(std::mt19937_64& random) {
    static const std::vector<std::string> kParts = {"a", "b", "c", "d", "\u20AC", "\uFFFD"};
    std::vector<std::string> stops(1 + random() % 16);
    for (std::string& stop : stops) {
        for (std::uint64_t size = 2 + random() % 5; size > 0; --size)
            stop += kParts[random() % (random() % 2 == 0 ? kParts.size() : 2)];
    }
    return stops;
}

// One of the samplers that decide a sequence by turns.
struct Sampler {
    proto::StateTotals totals{};
    std::unique_ptr<SequenceStates> states;
    std::uint32_t revision = 0;
};

// A sequence as its entry shows it.
struct Sequence {
    explicit Sequence(std::mt19937_64& random)
        : key(static_cast<std::uint32_t>(random())), stops(random_stops(random)) {
        for (std::uint64_t size = random() % 4; size > 0; --size)
            prompt.push_back(static_cast<std::int32_t>(random() % kIds));
        params.min_tokens = random() % 3 == 0 ? static_cast<std::uint32_t>(random() % 6) : 0;
        if (random() % 2 == 0) params.flags |= proto::kStopAtJson;
        if (random() % 2 == 0 && params.flags != 0) stops.clear();
        for (const std::string& stop : stops) proto::append_stop_words(stop, words);
    }

    // Whoever decides a position between two revisions finds the same token.
    std::int32_t next() const {
        std::seed_seq seed{key, revision, static_cast<std::uint32_t>(output.size())};
        std::uint32_t drawn = 0;
        seed.generate(&drawn, &drawn + 1);
        return static_cast<std::int32_t>(drawn % (kIds + 3));
    }

    std::uint32_t key;
    std::vector<std::string> stops;
    std::vector<std::int32_t> words;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    proto::SamplingParams params;
    std::uint32_t revision = 0;
    std::uint32_t kept = 0;
};

}  // namespace

TEST_CASE(
    "samplers that decide a sequence by turns find the end of its text, whatever was truncated between") {
    const bool json = GENERATE(false, true);
    std::mt19937_64 random(json ? 71 : 70);
    const Pieces pieces = json ? testing::json_pieces(kIds) : testing::small_alphabet_pieces(kIds);
    const auto table = text::TokenTable::parse(testing::tiktoken_file(pieces));
    int strings = 0;
    int values = 0;
    for (int decided = 0; decided < kDecisions;) {
        Sequence sequence(random);
        const std::string unfinished = testing::unfinished_of(pieces, sequence.prompt);
        std::array<Sampler, 3> samplers;
        for (Sampler& each : samplers)
            each.states = std::make_unique<SequenceStates>(kIds, 1000, 1, 1, each.totals);
        for (std::uint64_t turns = 20 + random() % 150; turns > 0; --turns, ++decided) {
            if (random() % 12 == 0) {
                ++sequence.revision;
                const std::size_t back = random() % (random() % 4 == 0 ? 100 : 4);
                sequence.output.resize(sequence.output.size() - std::min(back, sequence.output.size()));
                sequence.kept = static_cast<std::uint32_t>(sequence.prompt.size() + sequence.output.size());
            }
            SequenceStates& states = *samplers[random() % (random() % 3 == 0 ? 3 : 1)].states;
            const bool is_late = random() % 10 == 0;  // a later revision has come
            const SequenceStates::Which which{0, 5, sequence.revision,
                                              is_late ? std::nullopt : std::optional(sequence.kept)};
            states.of(0, which, sequence.params, {}, sequence.words);
            StopSearch* const search = states.stops_of(0, 0, &table, sequence.prompt);
            REQUIRE(search != nullptr);
            // In parts, as a long history is followed, or not at all before the decision.
            if (random() % 3 == 0) (void)search->follow(sequence.output, random() % 20);
            while (!search->follow(sequence.output)) FAIL("all is followed");
            states.account(0, 0, false);
            const std::int32_t token = sequence.next();
            std::vector<std::int32_t> output = sequence.output;
            output.push_back(token);
            const auto expected = testing::reference_text(pieces,
                                                          {sequence.stops, sequence.params.min_tokens, false,
                                                           (sequence.params.flags & proto::kStopAtJson) != 0},
                                                          unfinished, output, OtherEnd::none);
            const unsigned wanted = expected.stop ? expected.stop->flag : 0U;
            const unsigned found = search->completed_by(token);
            if (found != wanted) {
                CAPTURE(decided, sequence.output.size(), token, sequence.stops);
                REQUIRE(found == wanted);
            }
            strings += found == proto::kStoppedByString ? 1 : 0;
            values += found == proto::kStoppedByJson ? 1 : 0;
            // Now and then the column is not decided after all, or decided again.
            if (random() % 8 != 0) sequence.output = output;
        }
    }
    CHECK(strings > kDecisions / (json ? 1000 : 200));
    CHECK((!json || values > kDecisions / 200));
}

TEST_CASE("what a search for stop strings holds is counted, and freed with its state") {
    proto::StateTotals totals{};
    const auto table = text::TokenTable::parse(testing::tiktoken_file(testing::small_alphabet_pieces(kIds)));
    std::vector<std::int32_t> words;
    for (char first = 'a'; first < 'q'; ++first)
        proto::append_stop_words(first + std::string(255, 'x'), words);
    SequenceStates states(kIds, 1000, 2, 1, totals);
    states.of(0, {0, 1, 0}, {}, {}, words);
    states.account(0, 0, false);
    const std::uint64_t before = totals.bytes.load();
    REQUIRE(states.stops_of(0, 0, &table, {}) != nullptr);
    states.account(0, 0, false);
    CHECK(totals.bytes.load() - before > 40'000);
    // Another request of the same slot has none.
    states.of(0, {0, 2, 0}, {}, {}, {});
    states.account(0, 0, false);
    CHECK(totals.bytes.load() < before + 1000);
    words.back() = 0;
    words[0] = 257;
    states.of(0, {1, 1, 0}, {}, {}, words);
    CHECK(states.stops_of(0, 1, &table, {}) == nullptr);
    CHECK(states.stops_of(0, 1, nullptr, {}) == nullptr);
}

}  // namespace croupier::daemon
