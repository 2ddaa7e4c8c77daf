// Where JSON values end, compared with a parser of the whole text and with nlohmann's.
#include "text/json_automaton.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "testing/json_reference.h"
#include "testing/random_json.h"
#include "text/utf8.h"

namespace croupier::text {
namespace {

using testing::JsonValue;

constexpr int kCases = 400'000;

// All values that the automaton finds in text that comes in these pieces.
std::vector<JsonValue> values_of(const std::vector<std::string>& pieces) {
    std::vector<JsonValue> values;
    JsonAutomaton automaton;
    std::size_t before = 0;
    for (std::string_view piece : pieces) {
        while (const auto found = automaton.find(piece)) {
            const std::size_t end = before + found->end;
            values.push_back({end - found->bytes, end, before + found->complete});
            piece.remove_prefix(found->complete);
            before += found->complete;
        }
        before += piece.size();
    }
    return values;
}

// The first value's own text, and what completes it; empty: there is none.
std::string first_value(const std::string& text) {
    const auto values = values_of({text});
    return values.empty() ? "" : text.substr(values[0].begin, values[0].end - values[0].begin);
}

// An object, an array and a string are the shortest beginning of the text that nlohmann accepts; another
// value goes to the first delimiter.
std::optional<JsonValue> accepted_value(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(" \t\n\r");
    if (begin == std::string::npos) return std::nullopt;
    const auto accepts = [&](std::size_t end) {
        return nlohmann::json::accept(text.substr(begin, end - begin));
    };
    if (std::string_view("{[\"").find(text[begin]) == std::string_view::npos) {
        const std::size_t end = text.find_first_of(" \t\n\r,:[]{}", begin);
        if (end == std::string::npos || !accepts(end)) return std::nullopt;
        return JsonValue{begin, end, end + 1};
    }
    for (std::size_t end = begin + 1; end <= text.size(); ++end) {
        if (accepts(end)) return JsonValue{begin, end, end};
    }
    return std::nullopt;
}

// nlohmann refuses numbers that no double holds.
bool has_large_exponent(const std::string& text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != 'e' && text[at] != 'E') continue;
        const std::size_t digits = text.find_first_not_of("+-", at + 1);
        if (digits != std::string::npos && text.find_first_not_of("0123456789", digits) > digits + 2)
            return true;
    }
    return false;
}

}  // namespace

TEST_CASE("a JSON value ends with its last byte, a scalar before the delimiter behind it") {
    CHECK(values_of({R"({"a": [1, "}"]} rest)"}) == std::vector<JsonValue>{{0, 15, 15}});
    CHECK(values_of({" \n[]"}) == std::vector<JsonValue>{{2, 4, 4}});
    CHECK(values_of({R"("a\"\\")", "x"}) == std::vector<JsonValue>{{0, 7, 7}});
    CHECK(values_of({"-12.5e+3", "\n"}) == std::vector<JsonValue>{{0, 8, 9}});
    CHECK(values_of({"true", ",x"}) == std::vector<JsonValue>{{0, 4, 5}});
    CHECK(values_of({"null"}).empty());
    CHECK(values_of({"12"}).empty());
    CHECK(first_value("0]") == "0");
    CHECK(first_value(R"({"a":{"b":[{},[]]},"c":null})") == R"({"a":{"b":[{},[]]},"c":null})");
    CHECK(first_value(R"("\u00e9\uD800")") == R"("\u00e9\uD800")");
    CHECK(first_value("\"\u20AC\xFF\"") == "\"\u20AC\xFF\"");
}

TEST_CASE("after a JSON value the next one may follow, and the delimiter is a part of what follows") {
    CHECK(values_of({"1 2 [3]4,"}) == std::vector<JsonValue>{{0, 1, 2}, {2, 3, 4}, {4, 7, 7}, {7, 8, 9}});
    CHECK(values_of({"1[2]"}) == std::vector<JsonValue>{{0, 1, 2}, {1, 4, 4}});
    CHECK(values_of({"1", "{", "}"}) == std::vector<JsonValue>{{0, 1, 2}, {1, 3, 3}});
    CHECK(values_of({"1,2 "}) == std::vector<JsonValue>{{0, 1, 2}});
    CHECK(values_of({R"({}{"a":1}x[])"}) == std::vector<JsonValue>{{0, 2, 2}, {2, 9, 9}});
}

TEST_CASE("text that breaks the grammar of JSON has no value from there on") {
    const char* const broken =
        GENERATE("", "   ", "Sure: {}", "```json\n{}", "\xEF\xBB\xBF{}", "01 ", "-", "- 1 ", "+1 ", ".5 ",
                 "1. ", "1.e2 ", "1e ", "1e+ ", "12a ", "1.5.2 ", "2026-11-28 ", "12\"a\"", "tru ", "True ",
                 "nulls ", "trueFalse ", "NaN ", "Infinity ", "-Infinity ", "]", "}", ",", ":", "[1,]",
                 "[,1]", "[1 2]", "[1}", "{1:2}", "{\"a\"}", "{\"a\" 1}", "{\"a\":}", "{\"a\":1,}", "{,}",
                 "{\"a\":1 \"b\":2}", "{]", "['a']", "\"\n\"", "\"a\tb\"", "\"\\x\"", "\"\\u12g4\"",
                 "\"\\u12\"", "// {}\n{}", "[tru]", "[01]", "[1.]", "[-]", "[\"]", "{\"a\":[}");
    INFO(broken);
    CHECK(values_of({broken}).empty());
}

TEST_CASE("JSON of up to 128 levels has an end") {
    const auto nested = [](std::size_t levels) {
        std::string text;
        for (std::size_t i = 0; i < levels; ++i) text += i % 3 == 0 ? "{\"a\":" : "[";
        text += "1";
        for (std::size_t i = levels; i-- > 0;) text += i % 3 == 0 ? "}" : "]";
        return text;
    };
    for (const std::size_t levels : {1U, 2U, 63U, 64U, 65U, 127U, 128U})
        CHECK(first_value(nested(levels)) == nested(levels));
    CHECK(values_of({nested(129)}).empty());
    // As often as one likes beside one another.
    std::string wide = "[";
    for (int i = 0; i < 1000; ++i) wide += nested(127) + (i < 999 ? "," : "]");
    CHECK(first_value(wide + "x") == wide);
}

TEST_CASE("JSON values are found where a parser of the whole text finds them, however tokens cut it") {
    std::mt19937_64 random(60);
    std::size_t found = 0;
    for (int i = 0; i < kCases; ++i) {
        const std::string text = testing::random_json(random);
        const auto pieces = testing::cut_randomly(text, 1 + random() % 9, random);
        const auto expected = testing::json_values(text);
        found += expected.size();
        if (values_of(pieces) == expected) continue;
        CAPTURE(i, text, pieces);
        REQUIRE(values_of(pieces) == expected);
    }
    CHECK(found > kCases);
}

TEST_CASE("the first JSON value of a text is the one that nlohmann's parser accepts") {
    std::mt19937_64 random(61);
    int found = 0;
    int none = 0;
    for (int i = 0; i < kCases / 4; ++i) {
        const std::string text = testing::random_json(random);
        if (!is_utf8(text) || has_large_exponent(text)) continue;
        const auto values = values_of(testing::cut_randomly(text, 4, random));
        const auto first = values.empty() ? std::nullopt : std::optional(values[0]);
        const auto expected = accepted_value(text);
        ++(expected ? found : none);
        if (first == expected) continue;
        CAPTURE(i, text);
        REQUIRE(first == expected);
    }
    CHECK(found > kCases / 8);
    CHECK(none > kCases / 50);
}

}  // namespace croupier::text
