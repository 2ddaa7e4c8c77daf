// tokenizer.json files of every kind, and invalid ones.
#include "explain/token_texts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "explain/fields.h"
#include "testing/workplace.h"

namespace croupier::explain {
namespace {

using Catch::Matchers::Contains;
using testing::Workplace;

TokenTexts load(const std::string& text) {
    const Workplace place;
    place.write("tokenizer.json", text);
    return TokenTexts::load(place.path() / "tokenizer.json");
}

std::string fault_of(const std::string& text) {
    try {
        (void)load(text);
    } catch (const RequestError& error) {
        const std::string what = error.what();
        CHECK_THAT(what, Catch::Matchers::StartsWith("tokenizer '") && Contains("tokenizer.json': "));
        return what.substr(what.find("': ") + 3);
    }
    return "";
}

}  // namespace

TEST_CASE("pieces of a byte-level vocabulary are decoded to bytes") {
    const TokenTexts texts = load(R"({
        "added_tokens": [{"id": 5, "content": "<|end|>", "special": true}],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
        "model": {"type": "BPE", "merges": [["Ġ", "the"], "t he"], "vocab":
            {"Ġthe": 0, "Ċ": 1, "Ã©": 2, "â": 3, "ÿ": 4, "Ā": 7, "日": 8}}})");
    CHECK(texts.shown(0) == "\"␣the\"");
    CHECK(texts.shown(1) == "\"\\n\"");
    CHECK(texts.shown(2) == "\"é\"");
    CHECK(texts.shown(3) == "\"\\xe2\"");
    CHECK(texts.shown(4) == "\"\\xff\"");
    CHECK(texts.shown(5) == "\"<|end|>\"");
    CHECK(texts.bytes(7) == std::string_view("\0", 1));
    CHECK(texts.shown(8) == "\"日\"");
    // Ids without a text are shown as numbers.
    for (const std::int32_t id : {-1, 6, 9, 1'000'000'000}) {
        CHECK_FALSE(texts.bytes(id));
        CHECK(texts.shown(id).empty());
    }
}

TEST_CASE("each byte has one character in a byte-level vocabulary") {
    Json vocabulary = Json::object();
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        const std::uint32_t code = is_itself ? byte : next++;
        const std::string character = code < 0x80 ? std::string(1, static_cast<char>(code))
                                                  : std::string{static_cast<char>(0xc0U | code >> 6U),
                                                                static_cast<char>(0x80U | (code & 0x3fU))};
        vocabulary[character] = byte;
    }
    const TokenTexts texts =
        load(R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": )" + vocabulary.dump() + "}}");
    for (std::int32_t byte = 0; byte < 256; ++byte)
        CHECK(texts.bytes(byte) == std::string(1, static_cast<char>(byte)));
}

TEST_CASE("spaces and byte pieces of sentencepiece are decoded") {
    const TokenTexts texts = load(R"({
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "byte_fallback": true, "vocab":
            {"<s>": 0, "▁the": 1, "<0x0A>": 2, "<0xE2>": 3, "▁▁": 4, "<0xZZ>": 5}}})");
    CHECK(texts.shown(0) == "\"<s>\"");
    CHECK(texts.shown(1) == "\"␣the\"");
    CHECK(texts.shown(2) == "\"\\n\"");
    CHECK(texts.shown(3) == "\"\\xe2\"");
    CHECK(texts.shown(4) == "\"␣␣\"");
    CHECK(texts.shown(5) == "\"<0xZZ>\"");
}

TEST_CASE("in a unigram vocabulary the index is the id") {
    const TokenTexts texts = load(
        R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -2.5], ["b", -3]]}})");
    CHECK(texts.shown(0) == "\"<unk>\"");
    CHECK(texts.shown(1) == "\"␣a\"");
    CHECK(texts.shown(2) == "\"b\"");
    CHECK_FALSE(texts.bytes(3));
}

TEST_CASE("pieces of a word-level vocabulary are unchanged") {
    const TokenTexts texts =
        load(R"({"model": {"type": "WordPiece", "vocab": {"un": 0, "##able": 1, "": 2}}})");
    CHECK(texts.shown(1) == "\"##able\"");
    CHECK(texts.shown(2) == "\"\"");
}

TEST_CASE("several tokens form one text, with ids in place of missing texts") {
    const TokenTexts texts =
        load(R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"Ġ": 0, "â": 1, "Ĥ¬": 2, "9": 3}}})");
    const std::vector<std::int32_t> tokens = {3, 0, 1, 2, 77, 3};
    CHECK(texts.shown(tokens, 10) == "9␣€[77]9");
    CHECK(texts.shown(tokens, 2) == "…[77]9");
    CHECK(texts.shown(std::span(tokens).first(3), 10) == "9␣\\xe2");
    CHECK(TokenTexts().shown(tokens, 2) == "…[77][3]");
}

TEST_CASE("a row must have a logit for each id of the tokenizer") {
    const TokenTexts texts = load(R"({"model": {"vocab": {"a": 0, "b": 9}}})");
    CHECK_NOTHROW(texts.check_fits(10));
    CHECK_THROWS_WITH(texts.check_fits(9),
                      Contains("the token \"b\" has the id 9, and the vocabulary has 9 ids"));
    CHECK_NOTHROW(TokenTexts().check_fits(1));
}

TEST_CASE("an invalid tokenizer is refused with the file and the place") {
    const std::pair<const char*, const char*> cases[] = {
        {"", "the file is not valid JSON: parse error at line 1, column 1"},
        {"{\"model\": {\n\"vocab\": {]", "the file is not valid JSON: parse error at line 2, column"},
        {"\xff\xfe{}", "the file is not valid JSON"},
        {R"({"model": {"vocab": {"a": 0}}} x)", "the file is not valid JSON"},
        {"[1, 2]", "the file is a list, not an object"},
        {"{}", "the file has no model.vocab: is it a tokenizer.json?"},
        {R"({"vocab": {"a": 1}})", "the file has no model.vocab"},
        {R"({"model": 5})", "model is a number; it should be an object with a vocab"},
        {R"({"model": {"vocab": "vocab.txt"}})",
         "model.vocab is a string; it should be an object of ids by token"},
        {R"({"model": {"vocab": {}}})", "model.vocab is empty"},
        {R"({"model": {"vocab": []}})", "model.vocab is empty"},
        {R"({"model": {"vocab": {"a": "0"}}})", "model.vocab.a is a string; it should be the token's id"},
        {R"({"model": {"vocab": {"a": -1}}})", "model.vocab.a is -1; ids are not negative"},
        {R"({"model": {"vocab": {"a": 1.5}}})", "model.vocab.a is 1.5"},
        {R"({"model": {"vocab": {"a": 1048576}}})",
         "model.vocab.a is 1048576; allowed: the ids 0 to 1048575"},
        {R"({"model": {"vocab": {"a": 99999999999999999999999}}})", "model.vocab.a is"},
        {R"({"model": {"vocab": {"a": 3, "b": 3}}})", "model.vocab: 'a' and 'b' both have the id 3"},
        {R"({"model": {"vocab": {"a": {}}}})", "model.vocab.a is an object"},
        {R"({"model": {"vocab": ["a"]}})", "model.vocab[0] is a string; it should be a [token, score]"},
        {R"({"model": {"vocab": [["a", 0], [1, 0]]}})", "model.vocab[1] has no token"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": {}})",
         "added_tokens is an object; it should be a list"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [7]})", "added_tokens[0] is a number"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 3}]})",
         "added_tokens[0] has no id or no content"},
        {R"({"added_tokens": [{"id": "3", "content": "x"}]})", "added_tokens[0].id is a string"},
        {R"({"added_tokens": [{"id": -3, "content": "x"}]})",
         "added_tokens[0].id is -3; ids are not negative"},
        {R"({"added_tokens": [{"id": 3, "content": 4}]})", "added_tokens[0].content is a number"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 0, "content": "x"}]})",
         "added_tokens: 'x' has the id 0, which model.vocab gives to 'a'"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "x"}, {"id": 1, "content": "y"}]})",
         "added_tokens: 'y' has the id 1, which another one of them gives to 'x'"},
        {"{\"model\": {\"vocab\": {\"a\x1b[31m\": 0}}}", "the file is not valid JSON"},
        {R"({"model": {"vocab": {"a\u001b[31m\u202e": true}}})",
         "model.vocab.a\\u{1b}[31m\\u{202e} is a boolean"},
    };
    for (const auto& [text, fault] : cases) {
        INFO(text);
        CHECK_THAT(fault_of(text), Contains(fault));
    }
    CHECK_THAT(fault_of(std::string(100'000, '[')), Contains("is a list, not an object"));
    CHECK_THAT(fault_of("{\"a\":" + std::string(100'000, '[')), Contains("is nested deeper than 64"));
}

TEST_CASE("a vocabulary and its added tokens may name the same token") {
    const TokenTexts texts = load(
        R"({"added_tokens": [{"id": 0, "content": "<s>"}], "model": {"vocab": {"<s>": 0}}, "decoder": null})");
    CHECK(texts.shown(0) == "\"<s>\"");
}

TEST_CASE("files that cannot be read, or are too large, are refused by name") {
    const Workplace place;
    const auto fault = [&place](const char* name) {
        try {
            (void)TokenTexts::load(place.path() / name);
        } catch (const RequestError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(fault("none"), Contains("none': No such file or directory"));
    std::filesystem::create_directory(place.path() / "folder");
    CHECK_THAT(fault("folder"), Contains("is not a regular file"));
    REQUIRE(::mkfifo((place.path() / "fifo").c_str(), 0600) == 0);
    CHECK_THAT(fault("fifo"), Contains("is not a regular file"));
    place.write("large", "{}");
    REQUIRE(::truncate((place.path() / "large").c_str(), std::int64_t{2} << 30) == 0);
    CHECK_THAT(fault("large"), Contains("has 2147483648 bytes; allowed: up to 268435456"));
}

}  // namespace croupier::explain
