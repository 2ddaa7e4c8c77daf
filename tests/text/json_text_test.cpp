// Texts that end with a JSON value, compared with a parser of the whole text.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "testing/random_json.h"
#include "text/sequence_text.h"
#include "text/utf8.h"

namespace croupier::text {
namespace {

using testing::OtherEnd;

constexpr int kCases = 120'000;

struct Tokens {
    testing::Pieces pieces;
    std::vector<std::int32_t> ids;
};

// Of a text that is cut into these.
Tokens tokens_of(const std::vector<std::string>& cut) {
    Tokens tokens;
    std::map<std::string, std::int32_t> ids;
    for (const std::string& piece : cut) {
        const auto [at, is_new] = ids.emplace(piece, static_cast<std::int32_t>(ids.size()));
        if (is_new) tokens.pieces.push_back(piece);
        tokens.ids.push_back(at->second);
    }
    return tokens;
}

testing::ReferenceRules random_rules(const std::string& text, std::mt19937_64& random) {
    testing::ReferenceRules rules;
    rules.stop_at_json = true;
    rules.include_stop = random() % 3 == 0;
    rules.min_tokens = random() % 3 == 0 ? static_cast<std::uint32_t>(random() % 8) : 0;
    for (std::uint64_t count = random() % 3; count > 0; --count) {
        const std::string stop = text.substr(random() % text.size(), 1 + random() % 4);
        if (is_utf8(stop)) rules.stops.push_back(stop);
    }
    return rules;
}

// What a text and a reference found at a token.
struct Found {
    std::uint64_t released;
    std::uint16_t flag;
    std::uint32_t index;
    std::uint64_t begin;
    bool operator==(const Found&) const = default;
};

Found found_of(const TextProgress& progress) {
    if (!progress.stop) return {progress.released, 0, 0, 0};
    const bool is_json = progress.stop->kind == FoundStop::Kind::json;
    const std::uint16_t flag = is_json ? CROUPIER_STOPPED_JSON : CROUPIER_STOPPED_STRING;
    return {progress.released, flag, progress.stop->index, progress.stop->begin};
}

Found found_of(const testing::ReferenceText& text) {
    const client::TextStop stop = text.stop.value_or(client::TextStop());
    return {text.released.size(), stop.flag, stop.stop_string, stop.begin};
}

TextProgress ended_by(const TokenTable& table, const TextRules& rules, const std::vector<std::int32_t>& ids) {
    SequenceText sequence(table, rules);
    std::string text;
    for (const std::int32_t id : ids) {
        const TextProgress progress = sequence.add(id, text);
        if (progress.stop) return progress;
    }
    return {sequence.released(), std::nullopt};
}

TextProgress json_at(std::uint64_t begin, std::uint64_t end) {
    return {end, FoundStop{0, begin, FoundStop::Kind::json}};
}

}  // namespace

TEST_CASE("texts end with their JSON values and stop strings where a search in the whole text finds them") {
    std::mt19937_64 random(62);
    std::map<unsigned, int> ends;
    for (int i = 0; i < kCases; ++i) {
        const std::string text = testing::random_json(random);
        if (text.empty()) continue;
        const Tokens tokens = tokens_of(testing::cut_randomly(text, 1 + random() % 8, random));
        const auto rules = random_rules(text, random);
        const auto table = TokenTable::parse(testing::tiktoken_file(tokens.pieces));
        SequenceText sequence(table, {rules.stops, rules.min_tokens, rules.include_stop, true, true});
        std::string shown;
        int returns = 4;
        for (std::size_t at = 0; at < tokens.ids.size();) {
            const Found found = found_of(sequence.add(tokens.ids[at], shown));
            ++at;
            const Found expected = found_of(testing::reference_text(
                tokens.pieces, rules, {}, std::span(tokens.ids).first(at), OtherEnd::none));
            ++ends[found.flag];
            if (found != expected) {
                CAPTURE(i, text, at, found.flag, expected.flag, found.released, expected.released);
                REQUIRE(found == expected);
            }
            if (returns == 0 || random() % 16 != 0) continue;
            --returns;
            at = random() % (at + 1);
            shown.resize(sequence.truncate(at, tokens.ids));
        }
    }
    CHECK(ends[CROUPIER_STOPPED_JSON] > kCases / 2);
    CHECK(ends[CROUPIER_STOPPED_STRING] > kCases / 8);
}

TEST_CASE("of a JSON value and a stop string in one token, that which is complete first ends the text") {
    const auto table = TokenTable::parse(testing::tiktoken_file({"[1]STOP", "12 STOP", "[1,STOP", "2]"}));
    TextRules rules;
    rules.stop_at_json = true;
    rules.stops = {"STOP"};
    CHECK(ended_by(table, rules, {0}) == json_at(0, 3));
    CHECK(ended_by(table, rules, {1}) == json_at(0, 2));
    CHECK(ended_by(table, rules, {2, 3}) == TextProgress{3, FoundStop{0, 3}});
    // At the same byte.
    rules.stops = {"x", "]", " "};
    CHECK(ended_by(table, rules, {0}) == TextProgress{2, FoundStop{1, 2}});
    CHECK(ended_by(table, rules, {1}) == TextProgress{2, FoundStop{2, 2}});
    rules.include_stop = true;
    CHECK(ended_by(table, rules, {1}) == TextProgress{3, FoundStop{2, 2}});
    // A value is in the text, and nothing behind it.
    rules.stops = {};
    CHECK(ended_by(table, rules, {0}) == json_at(0, 3));
}

TEST_CASE("a JSON value within the first min_tokens tokens is passed over, and the next one ends the text") {
    const auto table = TokenTable::parse(testing::tiktoken_file({"[1]", " ", "{}", "12", "x"}));
    TextRules rules;
    rules.stop_at_json = true;
    rules.min_tokens = 2;
    CHECK(ended_by(table, rules, {0, 1, 2}) == json_at(4, 6));
    // Its bytes lie within them, and the delimiter that completes it does not.
    CHECK(ended_by(table, rules, {1, 3, 1}) == json_at(1, 3));
    CHECK(ended_by(table, rules, {0, 4, 2}) == TextProgress{6, std::nullopt});
    CHECK(ended_by(table, rules, {0, 1, 3}) == TextProgress{6, std::nullopt});
}

TEST_CASE("a sequence goes back within a JSON value to any of its tokens") {
    const auto table = TokenTable::parse(testing::tiktoken_file({"[", "{\"a\":", "}", "]", "1", "x"}));
    std::vector<std::int32_t> ids(100);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i % 3 == 0 ? 1 : 0;
    SequenceText sequence(table, {{}, 0, false, true, true});
    std::string text;
    for (const std::int32_t id : ids) (void)sequence.add(id, text);
    const auto close = [&](std::size_t kept) {
        text.resize(sequence.truncate(kept, ids));
        (void)sequence.add(4, text);
        for (std::size_t i = kept; i-- > 1;) {
            if (sequence.add(ids[i] == 0 ? 3 : 2, text).stop) return std::uint64_t{0};
        }
        return sequence.add(2, text).released;
    };
    for (const std::size_t kept : {100U, 99U, 70U, 64U, 63U, 1U}) {
        const std::uint64_t end = close(kept);
        CHECK(end == text.size());
    }
}

}  // namespace croupier::text
