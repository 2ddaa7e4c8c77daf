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

TEST_CASE("tokens are shown by their bytes, of a tokenizer.json or a tiktoken file") {
    const TokenTexts texts = load(R"({
        "added_tokens": [{"id": 5, "content": "<|end|>", "special": true}],
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"Ġthe": 0, "Ċ": 1, "Ã©": 2, "â": 3, "ÿ": 4, "Ā": 7, "日": 8}}})");
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
    CHECK(load("IQ== 0\n4oI= 1\n").shown(1) == "\"\\xe2\\x82\"");
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
    CHECK(fault_of(R"({"model": {"vocab": {"a": -1}}})") == "model.vocab.a is -1; ids are not negative");
    CHECK(fault_of("{}") == "the file has no model.vocab: is it a tokenizer.json?");
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
