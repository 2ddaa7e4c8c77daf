// Released bytes and stop strings, compared with a search in the whole text.
#include "text/sequence_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/text/random_tokenizer.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

using Catch::Matchers::Contains;

constexpr std::size_t kCases = 1'000'000;

// Tokens that are text, so that a text can be cut anywhere.
TokenTable table_of(const std::vector<std::string>& tokens) {
    nlohmann::json vocabulary = nlohmann::json::object();
    for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary[tokens[id]] = id;
    return TokenTable::parse(
        nlohmann::json{{"decoder", {{"type", "Fuse"}}}, {"model", {{"vocab", vocabulary}}}}.dump());
}

// The longest end of the text that another text could make a stop string of.
std::size_t held_of(std::string_view text, const std::vector<std::string>& stops) {
    std::size_t held = 0;
    for (const std::string& stop : stops) {
        for (std::size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
            if (text.ends_with(std::string_view(stop).substr(0, size))) held = std::max(held, size);
        }
    }
    return held;
}

struct WholeText {
    std::vector<TextProgress> progress;
    std::string text;
};

// Decodes everything, and then looks for the stop string that ends first after the tokens that do not count.
WholeText search_whole(const TokenTable& table, const TextRules& rules, std::span<const std::int32_t> prompt,
                       std::span<const std::int32_t> ids) {
    const TextDecoder decoder(table, rules.skip_special);
    DecoderState state = decoder.begin(prompt);
    WholeText whole;
    std::vector<std::size_t> ends{0};
    for (const std::int32_t id : ids) {
        decoder.decode(state, id, whole.text);
        ends.push_back(whole.text.size());
    }
    const std::size_t from = ends[std::min<std::size_t>(rules.min_tokens, ids.size())];
    std::size_t first_end = std::string::npos;
    FoundStop found{};
    for (std::uint32_t i = 0; i < rules.stops.size(); ++i) {
        const std::string& stop = rules.stops[i];
        std::size_t begin = whole.text.find(stop);
        while (begin != std::string::npos && begin + stop.size() <= from)
            begin = whole.text.find(stop, begin + 1);
        if (begin == std::string::npos || begin + stop.size() >= first_end) continue;
        first_end = begin + stop.size();
        found = {i, begin};
    }
    for (std::size_t token = 1; token <= ids.size(); ++token) {
        if (ends[token] >= first_end) {
            whole.progress.push_back({rules.include_stop ? first_end : found.begin, found});
            break;
        }
        const std::string_view text = std::string_view(whole.text).substr(0, ends[token]);
        whole.progress.push_back(
            {text.size() - (rules.include_stop ? 0 : held_of(text, rules.stops)), std::nullopt});
    }
    return whole;
}

// One letter more than the stop strings' own makes matches and near misses equally common.
std::string random_text(std::size_t most, std::mt19937_64& random) {
    static const std::vector<std::string> kParts = {
        "a", "b", "a", "b", "c", "é", "€", "\uFFFD", std::string(1, '\0')};
    std::string text;
    for (std::uint64_t size = 1 + random() % most; size > 0; --size)
        text += kParts[random() % (random() % 4 == 0 ? kParts.size() : 2)];
    return text;
}

TextRules random_rules(std::mt19937_64& random) {
    TextRules rules;
    for (std::uint64_t count = random() % 5; count > 0; --count)
        rules.stops.push_back(random_text(6, random));
    if (!rules.stops.empty() && random() % 4 == 0) rules.stops.push_back(rules.stops.front() + "a");
    if (random() % 3 == 0) rules.min_tokens = random() % 6;
    rules.include_stop = random() % 3 == 0;
    rules.skip_special = random() % 2 == 0;
    return rules;
}

// Adds tokens one by one, and now and then goes back.
void compare(SequenceText sequence, const WholeText& expected, std::span<const std::int32_t> ids,
             std::mt19937_64& random) {
    std::string text;
    int returns = 4;
    for (std::size_t at = 0; at < expected.progress.size();) {
        const TextProgress progress = sequence.add(ids[at], text);
        if (progress != expected.progress[at]) {
            CAPTURE(at, text, progress.released, expected.progress[at].released);
            REQUIRE(progress == expected.progress[at]);
        }
        ++at;
        if (returns == 0 || random() % 8 != 0) continue;
        --returns;
        at = random() % (at + 1);
        text.resize(sequence.truncate(at, ids));
    }
    if (text != std::string_view(expected.text).substr(0, text.size())) FAIL("the text is another");
}

}  // namespace

TEST_CASE(
    "every stop string is found where a search in the whole text finds it, however tokens cut the text") {
    std::mt19937_64 random(50);
    std::vector<std::string> tokens = {"a",
                                       "b",
                                       "ab",
                                       "ba",
                                       "aab",
                                       "bab",
                                       "c",
                                       "é",
                                       "€a",
                                       "b\uFFFD",
                                       "\uFFFD",
                                       "",
                                       std::string(1, '\0'),
                                       "abé",
                                       "bb",
                                       std::string(300, 'a') + "b"};
    const TokenTable table = table_of(tokens);
    for (std::size_t i = 0; i < kCases; ++i) {
        const TextRules rules = random_rules(random);
        const auto ids = random_ids(1 + random() % 12, static_cast<std::uint32_t>(tokens.size()), random);
        INFO("case " << i);
        const WholeText expected = search_whole(table, rules, {}, ids);
        compare(SequenceText(table, rules), expected, ids, random);
    }
}

TEST_CASE("stop strings are found in text of half characters, and what was released stays") {
    std::mt19937_64 random(51);
    for (const TokenizerKind& kind : tokenizer_kinds()) {
        INFO(kind.name);
        const TokenTable table = TokenTable::parse(random_tokenizer(kind, 120, random).dump());
        for (std::size_t i = 0; i < kCases / 400; ++i) {
            TextRules rules = random_rules(random);
            const auto ids = random_ids(1 + random() % 150, 120, random);
            const auto prompt = random_ids(random() % 5, 120, random);
            // Some that are in the text.
            TextRules plain_rules;
            plain_rules.skip_special = rules.skip_special;
            const WholeText plain = search_whole(table, plain_rules, prompt, ids);
            for (int stop = 0; stop < 3 && plain.text.size() > 8; ++stop) {
                const std::string part =
                    plain.text.substr(random() % (plain.text.size() - 8), 1 + random() % 8);
                if (is_utf8(part)) rules.stops.push_back(part);
            }
            const WholeText expected = search_whole(table, rules, prompt, ids);
            compare(SequenceText(table, rules, prompt), expected, ids, random);
        }
    }
}

TEST_CASE("a stop string that begins in one token and ends in another ends the text before it") {
    const TokenTable table = table_of({"xE", "ND", "yz", "N", "E"});
    SequenceText sequence(table, {{"END"}, 0, false});
    std::string text;
    CHECK(sequence.add(0, text) == TextProgress{1, std::nullopt});
    const TextProgress ended = sequence.add(1, text);
    CHECK(ended.released == 1);
    CHECK(ended.stop == FoundStop{0, 1});
    // Another token at its place: what was held back is released.
    text.resize(sequence.truncate(1, std::vector<std::int32_t>{0}));
    CHECK(text == "xE");
    CHECK(sequence.add(2, text) == TextProgress{4, std::nullopt});
    // Released to the end when the sequence ends otherwise.
    CHECK(sequence.add(4, text) == TextProgress{4, std::nullopt});
    CHECK(sequence.finish(text) == TextProgress{5, std::nullopt});
}

TEST_CASE("the stop string that is complete first counts, and of two at one byte the first of the list") {
    const TokenTable table = table_of({"abcd"});
    const auto found = [&table](const std::vector<std::string>& stops) {
        std::string text;
        return SequenceText(table, {stops, 0, false}).add(0, text).stop;
    };
    CHECK(found({"abcd", "bc"}) == FoundStop{1, 1});
    CHECK(found({"d", "cd"}) == FoundStop{0, 3});
    CHECK(found({"cd", "d"}) == FoundStop{0, 2});
    CHECK(found({"ab", "ab"}) == FoundStop{0, 0});
    CHECK(found({"x"}) == std::nullopt);
}

TEST_CASE("a stop string counts once it ends after the first min_tokens tokens") {
    const TokenTable table = table_of({"ab", "b", "c", ""});
    SequenceText sequence(table, {{"ab", "bb", "bc"}, 2, false});
    std::string text;
    CHECK(sequence.add(0, text) == TextProgress{1, std::nullopt});  // "ab" is passed over; "b" may begin "bb"
    CHECK(sequence.add(3, text) == TextProgress{1, std::nullopt});
    CHECK(sequence.add(1, text) == TextProgress{1, FoundStop{1, 1}});
}

TEST_CASE("a text that goes on after a stop string passes it over") {
    const TokenTable table = table_of({"ab", "abab", "c", "bc"});
    SequenceText sequence(table, {{"ab", "bc"}, 0, false});
    std::string text;
    CHECK(sequence.add(1, text).stop == FoundStop{0, 0});
    CHECK(sequence.bytes() == 4);
    // What is behind it in its token counts for what follows.
    CHECK(sequence.add(2, text) == TextProgress{3, FoundStop{1, 3}});
    CHECK(sequence.add(0, text) == TextProgress{5, FoundStop{0, 5}});
    CHECK(sequence.add(2, text) == TextProgress{6, FoundStop{1, 6}});
    CHECK(text == "ababcabc");
}

TEST_CASE("with include_stop the text ends after the stop string, and nothing is held back for it") {
    const TokenTable table = table_of({"x\n", "\ny"});
    SequenceText sequence(table, {{"\n\n"}, 0, true});
    std::string text;
    CHECK(sequence.add(0, text) == TextProgress{2, std::nullopt});
    CHECK(sequence.add(1, text) == TextProgress{3, FoundStop{0, 1}});
}

TEST_CASE("a stop string may contain U+FFFD, and the text's end is not searched for it") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"â": 0, "Ĥ": 1, "x": 2}}})");
    const TextRules rules{{"\uFFFD"}, 0, false};
    SequenceText sequence(table, rules);
    std::string text;
    CHECK(sequence.add(0, text) == TextProgress{0, std::nullopt});
    CHECK(SequenceText(sequence).finish(text) == TextProgress{3, std::nullopt});
    text.clear();
    CHECK(sequence.add(2, text) == TextProgress{0, FoundStop{0, 0}});
}

TEST_CASE("a sequence goes back to any of its tokens") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"â": 0, "Ĥ": 1, "¬": 2, "a": 3}}})");
    std::vector<std::int32_t> ids(1000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 4);
    SequenceText sequence(table, {{"a€a€x"}, 0, false});
    std::vector<std::uint64_t> bytes{0};
    std::vector<TextProgress> progress;
    std::string text;
    for (const std::int32_t id : ids) {
        progress.push_back(sequence.add(id, text));
        bytes.push_back(sequence.bytes());
    }
    for (const std::size_t tokens : {998U, 950U, 900U, 896U, 895U, 640U, 63U, 2U, 0U}) {
        CHECK(sequence.truncate(tokens, ids) == bytes[tokens]);
        CHECK(sequence.tokens() == tokens);
        SequenceText other = sequence;
        for (std::size_t i = tokens; i < std::min<std::size_t>(tokens + 70, 1000); ++i)
            CHECK(other.add(ids[i], text) == progress[i]);
    }
}

TEST_CASE("stop strings that can never be found are refused by their index") {
    const TokenTable table = table_of({"a"});
    const auto refused = [&table](const std::vector<std::string>& stops) {
        return SequenceText(table, {stops, 0, false});
    };
    CHECK_THROWS_WITH(refused({"a", ""}), Contains("stop_strings[1] is empty"));
    CHECK_THROWS_WITH(refused({std::string(257, 'a')}),
                      Contains("stop_strings[0] has 257 bytes; allowed: up to 256"));
    CHECK_THROWS_WITH(refused({"a", "b", "\xE2\x82"}), Contains("stop_strings[2] is not UTF-8"));
    CHECK_THROWS_WITH(refused(std::vector<std::string>(17, "a")),
                      Contains("stop_strings has 17 strings; allowed: up to 16"));
    // The largest: an automaton of 4,096 nodes.
    std::vector<std::string> largest;
    for (char first = 'a'; largest.size() < 16; ++first) largest.push_back(first + std::string(255, 'x'));
    std::string text;
    CHECK(refused(largest).add(0, text) == TextProgress{0, std::nullopt});
}

TEST_CASE("a text cannot go back to more tokens than it has, or than are given") {
    const TokenTable table = table_of({"a", "b"});
    SequenceText sequence(table, {});
    const std::vector<std::int32_t> ids(200, 1);
    CHECK_THROWS_WITH(sequence.truncate(130, ids), Contains("has 0 tokens") && Contains("back to 130"));
    std::string text;
    for (int i = 0; i < 70; ++i) sequence.add(0, text);
    CHECK_THROWS_AS(sequence.truncate(69, std::span(ids).first(68)), std::out_of_range);
    CHECK_THROWS_AS(sequence.truncate(71, ids), std::out_of_range);
    CHECK(sequence.truncate(70, {}) == 70);
}

}  // namespace croupier::text
