#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "explain/explained.h"
#include "explain/page.h"
#include "testing/workplace.h"
#include "tools/decide/answer.h"
#include "tools/explain/terminal.h"

namespace croupier::tools {

using namespace explain;
namespace {

using Catch::Matchers::Contains;

Explained explained(const Json& request) {
    RowFiles files;
    Decider decider;
    return explain_case(read_case(request, files), decider);
}

// Checks that tags are balanced and that no text has a bare ampersand.
bool well_formed(const std::string& page) {
    std::vector<std::string> open;
    for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
        const std::size_t end = page.find('>', at);
        if (end == std::string::npos || page.find('<', at + 1) < end) return false;
        const std::string tag = page.substr(at + 1, end - at - 1);
        if (tag.starts_with("!DOCTYPE") || tag.ends_with("/")) continue;
        const std::string name = tag.substr(0, tag.find(' '));
        if (!name.starts_with("/")) {
            open.push_back(name);
        } else if (open.empty() || open.back() != name.substr(1)) {
            return false;
        } else {
            open.pop_back();
        }
    }
    for (std::size_t at = page.find('&'); at != std::string::npos; at = page.find('&', at + 1)) {
        if (page.find(';', at) - at > 5) return false;
    }
    return open.empty();
}

const std::vector<Json>& kinds() {
    static const std::vector<Json> all = {
        Json::object(),      {{"temperature", 0}},     {{"top_p", 0.8}, {"temperature", 0.6}},
        {{"mirostat", 1}},   {{"mirostat", 2}},        {{"adaptive_target", 0.5}},
        {{"rng", "sglang"}}, {{"xtc_probability", 1}}, {{"presence_penalty", 2}}};
    return all;
}

Json request(const Json& params, std::uint64_t seed) {
    Json logits = Json::array();
    for (int id = 0; id < 40; ++id) logits.push_back((id * 7 % 40) / 8.0);
    return {{"logits", logits}, {"params", params}, {"output", {5, 6}}, {"seed", seed}};
}

}  // namespace

TEST_CASE("explain: gives the same token as decide, and how it was chosen") {
    RowFiles files;
    Decider decider;
    for (const Json& params : kinds()) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            INFO(params.dump() << " seed " << seed);
            const Json asked = request(params, seed);
            const Explained account = explained(asked);
            const Json answer = Json::parse(answer_line(asked.dump(), "line 1", files, decider));
            CHECK(account.outcome.decision.token == answer.at("tokens")[0]);
            CHECK(account.drawn().token == account.outcome.decision.token);
            CHECK(account.fast.token == account.outcome.decision.token);
            CHECK(account.drawn_logprob().token == account.outcome.decision.token);
            CHECK_FALSE(account.chooser.empty());
            CHECK(account.running.size() == account.outcome.support.size());
            CHECK(account.running.back() == Approx(1.0));
        }
    }
}

TEST_CASE("explain: the answer has the seed as text, which no reader of JSON rounds") {
    const Explained account = explained(request(Json::object(), 8667540643943873161U));
    CHECK(to_json(account).at("seed") == "8667540643943873161");
}

TEST_CASE("explain: the original probabilities sum to one") {
    const Explained account =
        explained({{"logits", {1, 2, 3, "-inf"}}, {"params", {{"top_k", 3}, {"temperature", 9}}}});
    double before = 0.0;
    for (const TokenShare& each : account.top) before += each.before;
    CHECK(before == Approx(1.0));
    CHECK(account.top[0].before == Approx(0.66524096));
}

TEST_CASE("explain: the terminal output marks the drawn token and follows the style") {
    const Explained account = explained(request({{"top_k", 30}, {"temperature", 2}}, 4));
    const std::string token = std::to_string(account.outcome.decision.token);
    const std::string plain = to_terminal(account, {});
    CHECK_THAT(plain, Contains("token " + token + " at position 2") && Contains("#") && Contains("\n> "));
    CHECK_THAT(plain, Contains("kept the best 30") && Contains("more tokens, "));
    CHECK(plain.find('\033') == std::string::npos);
    CHECK(plain.find("█") == std::string::npos);
    const std::string coloured = to_terminal(account, {.colour = true, .blocks = true, .width = 100});
    CHECK_THAT(coloured, Contains("\033[32m>") && Contains("█"));
}

TEST_CASE("explain: tokens of the history and with a bias are marked") {
    Json asked = request({{"logit_bias", {{"5", 9.5}}}}, 1);
    asked["prompt"] = {5, 5, 3};
    const Explained account = explained(asked);
    CHECK(standing_in_words(account.top.front()) == "2 in the prompt, 1 in the output, bias +9.5");
    CHECK_THAT(to_terminal(account, {}), Contains("(2 in the prompt, 1 in the output, bias +9.5)"));
    CHECK_THAT(to_page(account), Contains("(2 in the prompt, 1 in the output, bias +9.5)"));
}

TEST_CASE("explain: the page is well-formed and self-contained, and marks the drawn token") {
    for (const Json& params : kinds()) {
        INFO(params.dump());
        const Explained account = explained(request(params, 8));
        const std::string page = to_page(account);
        const std::string token = std::to_string(account.outcome.decision.token);
        CHECK(well_formed(page));
        CHECK_THAT(page, Contains("<h1>Why token " + token + "?</h1>") && Contains("class=\"drawn\""));
        CHECK_THAT(page, Contains("token " + token + ": "));
        CHECK(page.find("http") == std::string::npos);
        CHECK(page.find("src=") == std::string::npos);
        CHECK(page.find("nan") == std::string::npos);
    }
}

TEST_CASE("explain: the page shows cut tokens and the position of the winner") {
    const Explained account = explained(request({{"top_k", 3}}, 8));
    REQUIRE(account.cut.size() == 10);
    for (const TokenShare& each : account.cut) {
        CHECK(each.after == 0.0);
        CHECK(each.before <= account.cut.front().before);
        CHECK(each.before <= account.top.back().before);
    }
    const std::string page = to_page(account);
    CHECK(well_formed(page));
    CHECK_THAT(page, Contains("<tr class=\"cut\">") && Contains("37 tokens were cut"));
    const std::string token = std::to_string(account.outcome.decision.token);
    CHECK_THAT(page, Contains("<p>Token " + token + " won") && Contains(" of 3</text>"));
    CHECK(explained(request(Json::object(), 8)).cut.empty());
}

TEST_CASE("explain: the JSON output has the steps in order and the path of the daemon's code") {
    const OrderedJson object =
        to_json(explained(request({{"top_k", 30}, {"top_p", 0.9}, {"temperature", 2}}, 4)));
    std::vector<std::string> steps;
    for (const auto& step : object.at("steps")) steps.push_back(step.at("step").get<std::string>());
    CHECK(steps == std::vector<std::string>{"temperature", "top_k", "top_p", "draw"});
    CHECK_FALSE(object.at("fast").at("path").get<std::string>().empty());
    CHECK_THAT(object.at("chosen_by").get<std::string>(), Contains("the race"));
}

TEST_CASE("explain: a request without a decision is refused with the reason") {
    CHECK_THROWS_WITH(explained({{"logits", {1, "nan"}}}), Contains("the logit of id 1 is NaN"));
}

TEST_CASE("explain: a tokenizer gives tokens texts, which are escaped for display") {
    const testing::Workplace place;
    // The most likely tokens.
    place.write(
        "tokenizer.json",
        R"({"decoder": {"type": "Metaspace"}, "model": {"vocab": {"</code><script>alert(1)</script>": 1,
                    "▁over": 17, "\u001b[31m": 33, "\u202e": 28, "a very long text of a token that nobody reads": 5,
                    "▁once": 6}}})");
    const TokenTexts texts = TokenTexts::load(place.path() / "tokenizer.json");
    RowFiles files;
    Decider decider;
    Json asked = request({{"temperature", 0}}, 4);
    asked["logits"][17] = 30;
    asked["logits"][1] = 29;
    asked["logits"][33] = 28;
    asked["logits"][28] = 27;
    asked["logits"][5] = 26;
    asked["params"] = {{"temperature", 20}, {"top_k", 7}};
    asked["output"] = {6, 5, 1};
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        asked["seed"] = seed;
        const Explained account = explain_case(read_case(asked, files), decider, texts);
        const std::string page = to_page(account);
        CHECK(well_formed(page));
        CHECK_THAT(page, !Contains("<script") && !Contains("\033") && !Contains("\u202e"));
        CHECK_THAT(page, Contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;") && Contains("␣over"));
        CHECK_THAT(page, Contains("␣once"
                                  "a␣very␣long␣text"));
        const std::string text = to_terminal(account, {});
        CHECK_THAT(text, !Contains("\033") && !Contains("\u202e") && Contains("\"␣over\""));
        CHECK_THAT(text, Contains("  after: ␣oncea␣very") && Contains("\"a␣very␣long␣text␣of␣a␣to… (1 in"));
        CHECK(to_json(account).value("text", "") == texts.shown(account.outcome.decision.token));
    }
    CHECK_THROWS_WITH(explain_case(read_case(Json{{"logits", {1, 2}}}, files), decider, texts),
                      Contains("has the id 33, and the vocabulary has 2 ids"));
}

TEST_CASE("explain: stop strings are shown, and which of them the token completes") {
    RowFiles files;
    Decider decider;
    const Json asked = {{"logits", {0, 9, 0, 0}},
                        {"output", {0, 0}},
                        {"stop_strings", {"<b>", " no", "ab"}},
                        {"params", {{"temperature", 0}}}};
    const TokenTexts texts = TokenTexts::parse(
        R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"xa": 0, "b": 1, "c": 2, "Ġn": 3}}})", "");
    const Explained account = explain_case(read_case(asked, files), decider, texts);
    CHECK(stops_in_words(account) == R"(stop strings: "<b>", "␣no", "ab"; the token completes "ab")");
    CHECK_THAT(to_terminal(account, {}), Contains(R"(the token completes "ab")"));
    const std::string page = to_page(account);
    CHECK(well_formed(page));
    CHECK_THAT(page, Contains("stop strings: &quot;&lt;b&gt;&quot;"));
    CHECK(to_json(account).at("completes_stop_string") == 2);
    // Within min_tokens none counts, and without a tokenizer nobody knows.
    Json early = asked;
    early["params"]["min_tokens"] = 3;
    CHECK_FALSE(explain_case(read_case(early, files), decider, texts).completed);
    const Explained without = explain_case(read_case(asked, files), decider);
    CHECK_FALSE(without.completed);
    CHECK(to_json(without).at("stop_strings").size() == 3);
    Json wrong = asked;
    wrong["stop_strings"] = {"a", ""};
    CHECK_THROWS_WITH(read_case(wrong, files),
                      Contains("stop_strings[1] is \"\"; allowed: a string of 1 to"));
    wrong["stop_strings"] = std::vector<std::string>(17, "a");
    CHECK_THROWS_WITH(read_case(wrong, files), Contains("allowed: a list of up to 16 strings"));
}

TEST_CASE("explain: that a token completes a JSON value or a loop is shown") {
    RowFiles files;
    Decider decider;
    const TokenTexts texts = TokenTexts::parse(
        R"({"decoder": {"type": "Fuse"}, "model": {"vocab": {"[1": 0, "] a": 1, "c": 2, "x": 3}}})", "");
    Json asked = {{"logits", {0, 9, 0, 0}}, {"output", {0}}, {"stop_at_json", true}};
    asked["params"] = {{"temperature", 0}};
    const Explained account = explain_case(read_case(asked, files), decider, texts);
    CHECK(stops_in_words(account) == "stop_at_json; the token completes a JSON value");
    CHECK(to_json(account).at("completes_json") == true);
    CHECK_FALSE(to_json(account).contains("completes_stop_string"));
    CHECK(stops_in_words(explain_case(read_case(asked, files), decider)) == "stop_at_json");
    // The first byte that completes something counts.
    asked["stop_strings"] = {"x", " a"};
    CHECK(stops_in_words(explain_case(read_case(asked, files), decider, texts)) ==
          R"(stop strings: "x", "␣a", and stop_at_json; the token completes a JSON value)");
    asked["stop_strings"] = {"x", "]"};
    CHECK_THAT(stops_in_words(explain_case(read_case(asked, files), decider, texts)),
               Contains(R"(the token completes "]")"));
    asked = {{"logits", {0, 9, 0, 0}}, {"output", {2, 1}}};
    asked["params"] = {{"temperature", 0}, {"loop_max_period", 1}, {"loop_count", 2}};
    CHECK(flags_in_words(explain_case(read_case(asked, files), decider)) == "stopped_by_loop, greedy");
}

TEST_CASE("explain: of a tokenizer without a decoder it is said that tokens are shown as its file has them") {
    RowFiles files;
    Decider decider;
    const TokenTexts texts = TokenTexts::parse(R"({"model": {"vocab": {"Ġa": 0}}})", "");
    const Explained account = explain_case(read_case(Json{{"logits", {1, 2}}}, files), decider, texts);
    const auto says = Contains("Tokens are shown as the tokenizer's file writes them: decoder is missing");
    CHECK_THAT(account.note, says);
    CHECK_THAT(to_terminal(account, {}), says);
    CHECK_THAT(to_json(account).at("note").get<std::string>(), says);
}

TEST_CASE("explain: a daemon's decision is compared with the reference") {
    Json asked = request({{"top_k", 3}}, 4);
    const Explained own = explained(asked);
    CHECK(agreement_in_words(own).empty());
    const std::int32_t token = own.outcome.decision.token;
    asked["decided"] = {{"step", 12}, {"token", token}, {"path", "head"}};
    CHECK_THAT(to_terminal(explained(asked), {}),
               Contains("in step 12 it decided the same token, by path 'head'"));
    asked["decided"]["token"] = token + 1;
    const Explained other = explained(asked);
    CHECK_THAT(to_terminal(other, {}),
               Contains("in step 12 it decided a DIFFERENT token, " + std::to_string(token + 1)));
    CHECK_THAT(to_page(other), Contains("please report this"));
    CHECK(to_json(other).at("decided").at("token") == token + 1);
}

TEST_CASE("explain: reads requests from a file and from standard input, and a tokenizer") {
    const testing::Workplace place;
    place.write("request.json", R"({"logits": [1, 3, 2], "params": {"temperature": 0}})");
    place.write("tokenizer.json", R"({"model": {"vocab": {"no": 0, "yes": 1}}})");
    for (const char* arguments :
         {"explain request.json", "explain - < request.json", "explain < request.json"}) {
        const testing::Ended ended = place.run(arguments);
        CHECK(ended.status == 0);
        CHECK_THAT(ended.output, Contains("token 1 at position 0"));
    }
    CHECK_THAT(place.run("explain request.json --tokenizer tokenizer.json").output,
               Contains("token 1 \"yes\" at"));
    const testing::Ended missing = place.run("explain request.json --tokenizer none.json");
    CHECK(missing.status == 1);
    CHECK_THAT(missing.output, Contains("tokenizer 'none.json': No such file"));
    const testing::Ended other = place.run("explain request.json --json --tokenizer request.json");
    CHECK(other.status == 1);
    CHECK_THAT(Json::parse(other.output).at("error").get<std::string>(), Contains("has no model.vocab"));
}

}  // namespace croupier::tools
