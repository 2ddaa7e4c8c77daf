// The texts of a client that resumes a session, beside those of a client that was there all along.
#include "client/session_texts.h"

#include <catch2/catch.hpp>

using namespace croupier;
using client::SessionTexts;

namespace {

// "a", "b", the first of a character's three bytes, "[1" and "] b".
constexpr const char* kTokens = "YQ== 0\nYg== 1\n4g== 2\nWzE= 3\nXSBi 4\n";

croupier_decision decided(std::uint32_t position, std::int32_t token, std::uint16_t flags = 0) {
    croupier_decision decision{};
    decision.output_index = position;
    decision.token = token;
    decision.flags = flags;
    return decision;
}

std::string text_of(const SessionTexts::Text& text) {
    std::string made(text.released(), ' ');
    text.copy(0, made);
    return made;
}

// Of a text whose output has all tokens and that takes the last `again` decisions once more.
void compare(const text::TextRules& rules, const std::vector<croupier_decision>& all, std::size_t again) {
    const text::TokenTable table = text::TokenTable::parse_tiktoken(kTokens);
    SessionTexts::Text first(table, rules, {}, {});
    std::vector<std::int32_t> output;
    std::vector<croupier_decision> told = all;
    for (croupier_decision& decision : told) {
        REQUIRE(first.take(decision));
        output.push_back(decision.token);
    }
    SessionTexts::Text resumed(table, rules, {}, output);
    resumed.may_be_taken_again(output);
    for (std::size_t i = all.size() - again; i < all.size(); ++i) {
        croupier_decision decision = all[i];
        REQUIRE(resumed.take(decision));
        CHECK(decision.text_bytes == told[i].text_bytes);
        CHECK(decision.stop_begin == told[i].stop_begin);
        CHECK(decision.stop_string == told[i].stop_string);
    }
    CHECK(text_of(resumed) == text_of(first));
    CHECK(resumed.stop() == first.stop());
}

}  // namespace

TEST_CASE("what ended a text is told once more where a client died within the step") {
    text::TextRules rules;
    rules.stops = {"bb", "ab"};
    for (std::size_t again = 0; again <= 3; ++again) {
        INFO(again << " decisions of a step are taken again");
        // Held back: "a". The last token is half a character.
        const auto ends = static_cast<std::uint16_t>(CROUPIER_STOPPED_LENGTH);
        if (again > 0) compare(rules, {decided(0, 1), decided(1, 0), decided(2, 2, ends)}, again);
        if (again > 0)
            compare(rules, {decided(0, 1), decided(1, 0), decided(2, 0, CROUPIER_STOPPED_TOKEN)}, again);
        compare(rules, {decided(0, 0), decided(1, 0), decided(2, 1, CROUPIER_STOPPED_STRING)}, again);
        compare(rules, {decided(0, 1), decided(1, 0), decided(2, 0)}, again);
        text::TextRules json = rules;
        json.stop_at_json = true;
        if (again < 3) compare(json, {decided(0, 3), decided(1, 4, CROUPIER_STOPPED_JSON)}, again);
    }
}

TEST_CASE("a decision that contradicts what the client finds in the text is refused") {
    const text::TokenTable table = text::TokenTable::parse_tiktoken(kTokens);
    text::TextRules rules;
    rules.stops = {"b"};
    rules.stop_at_json = true;
    const auto is_taken = [&](std::vector<croupier_decision> decisions) {
        SessionTexts::Text text(table, rules, {}, {});
        bool taken = true;
        for (croupier_decision& decision : decisions) taken = taken && text.take(decision);
        return taken;
    };
    CHECK(is_taken({decided(0, 3), decided(1, 4, CROUPIER_STOPPED_JSON)}));
    CHECK(is_taken({decided(0, 3), decided(1, 4, CROUPIER_STOPPED_LENGTH)}));
    CHECK(is_taken({decided(0, 3), decided(1, 4, CROUPIER_STOPPED_LOOP)}));
    CHECK_FALSE(is_taken({decided(0, 3), decided(1, 4)}));
    CHECK_FALSE(is_taken({decided(0, 3), decided(1, 4, CROUPIER_STOPPED_STRING)}));
    CHECK_FALSE(is_taken({decided(0, 3, CROUPIER_STOPPED_JSON)}));
    CHECK_FALSE(is_taken({decided(0, 1, CROUPIER_STOPPED_JSON)}));
    CHECK(is_taken({decided(0, 1, CROUPIER_STOPPED_STRING)}));
}
