#include <catch2/catch.hpp>

#include "text/sequence_text.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

using Catch::Matchers::Contains;

std::string fault_of(const std::string& file) {
    try {
        (void)TokenTable::parse(file);
    } catch (const TextError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a tiktoken file gives each id its bytes") {
    const TokenTable table = TokenTable::parse_tiktoken("IQ== 0\nw6k= 2\r\n\n4oI= 3\nrCBh 4",
                                                        {{"<|end|>", 6, true}, {"<tool>", 7, false}});
    CHECK(table.size() == 8);
    CHECK(table.find(0)->bytes == "!");
    CHECK_FALSE(table.find(1));
    CHECK(table.find(2)->bytes == "é");
    CHECK(table.find(3)->bytes == "\xE2\x82");
    CHECK(table.find(6)->is_special);
    SequenceText sequence(table, {});
    std::string text;
    for (const std::int32_t id : {3, 4, 6, 7, 3}) sequence.add(id, text);
    const TextProgress end = sequence.finish(text);
    CHECK(end.released == text.size());
    CHECK(text == "€ a<tool>\uFFFD");
}

TEST_CASE("an invalid tiktoken file is refused with the line") {
    const std::pair<const char*, const char*> cases[] = {
        {"", "the file has no token"},
        {"\n\n", "the file has no token"},
        {"hello", "line 1 is 'hello'; it should be a token in base64, a space and its id"},
        {"\x1b[31m\xff", "line 1 is '\\u{1b}[31m\\xff'"},
        {"IQ== 0\nIQ= 1", "line 2 does not begin with a token in base64"},
        {"IQ== 0\nI=Q= 1", "line 2 does not begin with a token in base64"},
        {"====  0", "line 1 does not begin with a token in base64"},
        {"IR== 0", "line 1 does not begin with a token in base64"},
        {" 0", "line 1 does not begin with a token in base64"},
        {"IQ== ", "line 1 does not end with an id"},
        {"IQ==  0", "line 1 does not end with an id"},
        {"IQ== 1x", "line 1 does not end with an id"},
        {"IQ== -1", "line 1 does not end with an id"},
        {"IQ== 2147483648", "line 1 has an id that is too large; allowed: the ids 0 to 1048575"},
        {"IQ== 99999999999999999999", "line 1 has an id that is too large"},
        {"IQ== 0\nIg== 0", "model.vocab: '!' and '\"' both have the id 0"},
        {"IQ== 0\nIQ== 1", "model.vocab: '!' has the ids 0 and 1"},
    };
    for (const auto& [file, fault] : cases) {
        INFO(file);
        CHECK_THAT(fault_of(file), Contains(fault));
    }
}

}  // namespace croupier::text
