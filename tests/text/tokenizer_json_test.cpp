// tokenizer.json files of every kind, and hostile ones.
#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "proto/geometry.h"
#include "tests/text/random_tokenizer.h"
#include "text/sequence_text.h"
#include "text/text_error.h"
#include "text/token_table.h"

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

TEST_CASE("each byte has one character in a byte-level vocabulary") {
    nlohmann::json vocabulary = nlohmann::json::object();
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        const std::uint32_t code = is_itself ? byte : next++;
        const std::string character = code < 0x80 ? std::string(1, static_cast<char>(code))
                                                  : std::string{static_cast<char>(0xc0U | code >> 6U),
                                                                static_cast<char>(0x80U | (code & 0x3fU))};
        vocabulary[character] = byte;
    }
    const TokenTable table = TokenTable::parse(R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": )" +
                                               vocabulary.dump() + "}}");
    for (std::int32_t byte = 0; byte < 256; ++byte)
        CHECK(table.find(byte)->bytes == std::string(1, static_cast<char>(byte)));
    CHECK_FALSE(table.find(256));
    CHECK_FALSE(table.find(-1));
}

TEST_CASE("spaces and byte pieces of sentencepiece are decoded") {
    const TokenTable table = TokenTable::parse(R"({
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "byte_fallback": true, "vocab":
            {"<s>": 0, "▁the": 1, "<0x0A>": 2, "<0xE2>": 3, "▁▁": 4, "<0xZZ>": 5, "<0x+1>": 6}}})");
    CHECK(table.find(0)->bytes == "<s>");
    CHECK(table.find(1)->bytes == " the");
    CHECK(table.find(2)->bytes == "\n");
    CHECK(table.find(2)->is_byte);
    CHECK(table.find(3)->bytes == "\xe2");
    CHECK(table.find(4)->bytes == "  ");
    CHECK(table.find(5)->bytes == "<0xZZ>");
    CHECK(table.find(6)->bytes == "\x01");
}

TEST_CASE("in a unigram vocabulary the index is the id") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
            "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
            "model": {"type": "Unigram", "unk_id": 0, "vocab":
                [["<unk>", 0.0], ["▁a", -2.5], ["b", -3], ["<unk>", 0], ["b", -4]]}})");
    CHECK(table.find(0)->bytes == "<unk>");
    CHECK(table.find(1)->bytes == " a");
    CHECK(table.find(1, true)->bytes == "a");
    CHECK(table.find(2)->bytes == "b");
    CHECK(table.find(4)->bytes == "b");
    CHECK(table.size() == 5);
}

TEST_CASE("a vocabulary and its added tokens may name the same token, and added tokens may be special") {
    const TokenTable table = TokenTable::parse(
        R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "<t>", "special": false},
                             {"id": 1, "content": "<t>"}, {"id": 5, "content": ""}],
            "model": {"vocab": {"<s>": 0}}, "decoder": {"type": "Fuse"}})");
    CHECK(table.find(0)->is_special);
    CHECK_FALSE(table.find(1)->is_special);
    CHECK_FALSE(table.find(5));
}

TEST_CASE("decoders that take too long for their tokens are refused") {
    std::string vocabulary;
    for (int id = 0; id < 1000; ++id)
        vocabulary += (id == 0 ? "" : ",") + ("\"" + std::string(1000, 'a') + std::to_string(id)) +
                      "\":" + std::to_string(id);
    const auto fault = [&vocabulary](const std::string& decoders) {
        return fault_of(R"({"decoder": {"type": "Sequence", "decoders": [)" + decoders +
                        R"(]}, "model": {"vocab": {)" + vocabulary + "}}}");
    };
    // Each compares nearly all of its pattern at every byte.
    const std::string slow =
        R"({"type": "Replace", "pattern": {"String": ")" + std::string(255, 'a') + R"(b"}, "content": ""})";
    std::string many = slow;
    for (int i = 0; i < 20; ++i) many += "," + slow;
    CHECK_THAT(fault(many), Contains("the decoders take too long for so many tokens of such length"));
    const std::string large =
        R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(256, 'b') + R"("})";
    CHECK_THAT(fault(large), Contains("has more than 1024 bytes"));
}

TEST_CASE("a token of an image that is longer than any may be is no token") {
    const TokenTable table = TokenTable::parse(R"({"decoder": {"type": "Fuse"}, "model": {"vocab": {")" +
                                               std::string(1024, 'a') + R"(": 0, "b": 1}}})");
    std::vector<std::uint64_t> image(table.image().size() / sizeof(std::uint64_t) + 1);
    std::memcpy(image.data(), table.image().data(), table.image().size());
    const auto bytes = std::as_writable_bytes(std::span(image)).first(table.image().size());
    const TokenTable other = TokenTable::view(bytes);
    REQUIRE(other.find(0));
    // Behind the head, and behind where the first token begins, stands its length.
    constexpr std::size_t kLength = 24 + 4;
    const std::uint16_t length = 1025;
    std::memcpy(bytes.data() + kLength, &length, sizeof(length));
    CHECK_FALSE(other.find(0));
    CHECK(other.find(1));
}

TEST_CASE("a table read from another one's image has the same tokens") {
    std::mt19937_64 random(60);
    for (const TokenizerKind& kind : tokenizer_kinds()) {
        const TokenTable table = TokenTable::parse(random_tokenizer(kind, 300, random).dump());
        const std::vector<std::byte> image(table.image().begin(), table.image().end());
        const TokenTable viewed = TokenTable::view(image);
        CHECK(viewed.size() == table.size());
        CHECK(viewed.joining() == table.joining());
        CHECK(viewed.stripped() == table.stripped());
        CHECK(viewed.stripped_count() == table.stripped_count());
        for (std::int32_t id = -1; id <= 301; ++id) {
            for (const bool is_first : {false, true}) {
                const auto token = table.find(id, is_first);
                const auto same = viewed.find(id, is_first);
                REQUIRE(token.has_value() == same.has_value());
                if (!token) continue;
                CHECK(same->bytes == token->bytes);
                CHECK(same->is_special == token->is_special);
                CHECK(same->is_byte == token->is_byte);
                CHECK(same->is_utf8 == token->is_utf8);
            }
        }
        CHECK_THROWS_AS(TokenTable::view(std::span(image).first(image.size() - 1)), TextError);
        CHECK_THROWS_AS(TokenTable::view(std::span(image).first(10)), TextError);
    }
}

TEST_CASE("whatever is written over an image, decoding by it reads nothing outside") {
    std::mt19937_64 random(61);
    for (const TokenizerKind& kind : tokenizer_kinds()) {
        const TokenTable table = TokenTable::parse(random_tokenizer(kind, 60, random).dump());
        for (int round = 0; round < 2000; ++round) {
            std::vector<std::byte> image(table.image().begin(), table.image().end());
            const auto spoil = [&] {
                for (std::uint64_t i = random() % 40; i > 0; --i)
                    image[random() % image.size()] = static_cast<std::byte>(random());
            };
            if (round % 4 == 0) spoil();
            try {
                const TokenTable viewed = TokenTable::view(image);
                SequenceText sequence(viewed, {{"ab", "\uFFFD"}, 0, false, round % 2 == 0},
                                      random_ids(4, 60, random));
                spoil();
                std::string text;
                for (const std::int32_t id : random_ids(30, 60, random)) sequence.add(id, text);
                (void)sequence.finish(text);
            } catch (const TextError&) {
                CHECK(round % 4 == 0);
            }
        }
    }
}

TEST_CASE("an invalid tokenizer is refused with the place") {
    const std::pair<const char*, const char*> cases[] = {
        {"{", "the file is not valid JSON: parse error at line 1, column 2"},
        {"{\"model\": {\n\"vocab\": {]", "the file is not valid JSON: parse error at line 2, column"},
        {"\xff\xfe{}", "line 1 is '\\xff\\xfe{}'; it should be a token in base64"},
        {R"({"model": {"vocab": {"\ud800": 0}}})", "the file is not valid JSON"},
        {"{\"model\": {\"vocab\": {\"\xe2\x82\": 0}}}", "the file is not valid JSON"},
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
         "added_tokens: 'a' and 'x' both have the id 0"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "x"}, {"id": 1, "content": "y"}]})",
         "added_tokens: 'x' and 'y' both have the id 1"},
        {R"({"model": {"vocab": {"a": 0, "a": 1}}})",
         "model.vocab: 'a' has the ids 0 and 1; it should have one"},
        {R"({"model": {"vocab": {"a": 2147483648}}})",
         "model.vocab.a is 2147483648; allowed: the ids 0 to 1048575"},
        {R"({"model": {"vocab": {"a": 0}, "vocab": {"b": 1}}})", "model.vocab is there twice"},
        {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 7, "content": "a"}]})",
         "added_tokens: 'a' has the ids 0 and 7; it should have one"},
        {R"({"added_tokens": [{"id": 1, "content": "x", "special": 1}]})",
         "added_tokens[0].special is a number; it should be true or false"},
        {R"({"decoder": "ByteLevel"})", "decoder is a string; it should be an object as"},
        {R"({"decoder": {}})", "decoder has no type"},
        {R"({"decoder": {"type": 7}})", "decoder.type is a number; it should be a string"},
        {R"({"decoder": {"type": "Sequence", "decoders": {}}})",
         "decoder.decoders is an object; it should be a list"},
        {R"({"decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, []]}})",
         "decoder.decoders[1] is a list; it should be an object as"},
        {R"({"decoder": {"type": "Sequence", "decoders": [{"decoders": [{"type": "Fuse"}, {}]}]}})",
         "decoder.decoders[0].decoders[1] has no type"},
        {R"({"decoder": {"type": "Strip", "content": "ab", "start": 1}})",
         "decoder has no character as content"},
        {R"({"decoder": {"type": "Strip", "content": " ", "start": -1}})", "decoder.start is -1"},
        {R"({"decoder": {"type": "Strip", "content": " ", "start": 0.5}})", "decoder.start is 0.5"},
        {R"({"decoder": {"type": "Metaspace", "replacement": ""}})",
         "decoder has no character as replacement"},
        {R"({"decoder": {"type": "Metaspace", "prepend_scheme": "now"}})", "decoder.prepend_scheme is 'now'"},
        {R"({"decoder": {"type": "Replace", "pattern": "a"}})",
         "decoder.pattern is a string; it should be an object"},
        {R"({"decoder": {"type": "Fuse"}, "decoder": {"type": "Fuse"}})", "decoder is there twice"},
        {"{\"model\": {\"vocab\": {\"a\x1b[31m\": 0}}}", "the file is not valid JSON"},
        {R"({"model": {"vocab": {"a\u001b[31m\u202e": true}}})",
         "model.vocab.a\\u{1b}[31m\\u{202e} is a boolean"},
    };
    for (const auto& [text, fault] : cases) {
        INFO(text);
        CHECK_THAT(fault_of(text), Contains(fault));
    }
}

TEST_CASE("hostile files use bounded memory") {
    CHECK_THAT(fault_of(std::string(100'000, '[')), Contains("is a list, not an object"));
    CHECK_THAT(fault_of("{\"a\":" + std::string(100'000, '[')), Contains("is nested deeper than 64"));
    std::string steps;
    for (int i = 0; i < 40; ++i) steps += R"({"type": "Fuse"}, )";
    CHECK_THAT(fault_of(R"({"decoder": {"type": "Sequence", "decoders": [)" + steps + "{}]}}"),
               Contains("decoder.decoders[31] is one too many: at most 32 are allowed"));
    CHECK_THAT(fault_of(R"({"decoder": {"type": ")" + std::string(300, 'x') + R"("}})"),
               Contains("decoder.type has 300 bytes; allowed: up to 256"));
    // A replacement that makes a token 256 times as long, again and again.
    const std::string longer =
        R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(256, 'a') + R"("})";
    CHECK_THAT(fault_of(R"({"decoder": {"type": "Sequence", "decoders": [)" + longer + "," + longer + "," +
                        longer + R"(]}, "model": {"vocab": {"a": 0}}})"),
               Contains("the token 'a' has more than 1024 bytes"));
    CHECK_THAT(fault_of(R"({"decoder": {"type": "Fuse"}, "model": {"vocab": {")" + std::string(70'000, 'a') +
                        R"(": 0}}})"),
               Contains("aaaa…' has more than 1024 bytes"));
    // Tokens whose ids are not new.
    std::string many = R"({"model": {"vocab": {"a": 0)";
    for (std::size_t i = 0; i < proto::kMaxVocab; ++i) many += ",\"\":1";
    CHECK_THAT(fault_of(many), Contains("model.vocab. is one token too many; allowed: up to 1048576"));
    // A large file that ends early.
    std::string large = R"({"model": {"vocab": {)";
    for (int i = 0; i < 100'000; ++i) large += "\"t" + std::to_string(i) + "\": " + std::to_string(i) + ", ";
    CHECK_THAT(fault_of(large), Contains("the file is not valid JSON: parse error at line 1, column"));
}

}  // namespace croupier::text
