// A text decoded token by token is that of Hugging Face's decoders for the whole sequence.
#include "text/text_decoder.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/text/random_tokenizer.h"
#include "tests/text/whole_decode.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

using Catch::Matchers::Contains;

// What the ids add to the prompt's text. Without the end, what is certain of it.
std::string streamed(const TextDecoder& decoder, std::span<const std::int32_t> prompt,
                     std::span<const std::int32_t> ids, bool ends = true) {
    DecoderState state = decoder.begin(prompt);
    std::string text;
    for (const std::int32_t id : ids) {
        const std::size_t before = text.size();
        decoder.decode(state, id, text);
        // Never half a character.
        if (!is_utf8(std::string_view(text).substr(before))) FAIL("token " << id << " adds half a character");
    }
    if (ends) decoder.finish(state, text);
    return text;
}

std::string streamed(const TextDecoder& decoder, const std::vector<std::int32_t>& ids) {
    return streamed(decoder, {}, ids);
}

void compare(const TokenizerKind& kind, std::size_t sequences, std::mt19937_64& random) {
    constexpr std::uint32_t kSize = 150;
    const nlohmann::json tokenizer = random_tokenizer(kind, kSize, random);
    const TokenTable table = TokenTable::parse(tokenizer.dump());
    for (const bool skips : {true, false}) {
        const TextDecoder decoder(table, skips);
        for (std::int32_t id = -1; id < static_cast<std::int32_t>(kSize) + 3; ++id) {
            const std::vector<std::int32_t> ids{id};
            REQUIRE(streamed(decoder, ids) == whole_decode(tokenizer, ids, skips));
        }
        for (std::size_t i = 0; i < sequences; ++i) {
            auto all = random_ids(1 + random() % 12, kSize, random);
            const std::span<const std::int32_t> prompt = std::span(all).first(random() % (all.size() + 1));
            const std::string before = streamed(decoder, {}, prompt, false);
            const std::string text =
                before + streamed(decoder, prompt, std::span(all).subspan(prompt.size()));
            if (text != whole_decode(tokenizer, all, skips)) {
                CAPTURE(kind.name, all, prompt.size(), skips);
                REQUIRE(text == whole_decode(tokenizer, all, skips));
            }
        }
    }
}

// The 256 bytes by their values, and what may stand between them.
constexpr std::uint32_t kByteTokens = 260;
constexpr std::int32_t kLetter = 256;
constexpr std::int32_t kSpecial = 257;  // the two behind it are no tokens

nlohmann::json byte_tokenizer() {
    nlohmann::json vocabulary = {{"b", kLetter}};
    for (int byte = 0; byte < 256; ++byte) {
        std::array<char, 8> piece{};
        (void)std::snprintf(piece.data(), piece.size(), "<0x%02X>", byte);
        vocabulary[piece.data()] = byte;
    }
    return {
        {"added_tokens", nlohmann::json::array({{{"id", kSpecial}, {"content", "<s>"}, {"special", true}}})},
        {"decoder", {{"type", "ByteFallback"}}},
        {"model", {{"vocab", vocabulary}}}};
}

// The bytes of one character again and again, begun anywhere. In half of the runs, few tokens are others.
std::vector<std::int32_t> random_run(std::size_t count, std::mt19937_64& random) {
    static const std::array<std::string, 4> kCharacters = {"\u20AC", "\u00E9", "\U0001F600", "a"};
    const std::string& character = kCharacters[random() % kCharacters.size()];
    const bool is_mixed = random() % 2 == 0;
    std::vector<std::int32_t> ids;
    for (std::size_t at = random() % 4; ids.size() < count; ++at) {
        ids.push_back(static_cast<std::uint8_t>(character[at % character.size()]));
        if (is_mixed && random() % 500 == 0) ids.back() = static_cast<std::int32_t>(random() % kByteTokens);
    }
    return ids;
}

}  // namespace

TEST_CASE("decoding token by token gives the text of the whole sequence, whatever the tokenizer's kind") {
    std::mt19937_64 random(49);
    for (const TokenizerKind& kind : tokenizer_kinds()) {
        INFO(kind.name);
        for (int tokenizer = 0; tokenizer < 3; ++tokenizer) compare(kind, 400, random);
    }
}

TEST_CASE("a character appears with its last byte") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"xâ": 0, "Ĥ": 1, "¬y": 2}}})");
    const TextDecoder decoder(table, true);
    DecoderState state = decoder.begin({});
    std::string text;
    decoder.decode(state, 0, text);
    CHECK(text == "x");
    decoder.decode(state, 1, text);
    CHECK(text == "x");
    const DecoderState before = state;
    decoder.decode(state, 2, text);
    CHECK(text == "x€y");
    // Instead of its last byte comes another character: the two bytes are one U+FFFD.
    state = before;
    text = "x";
    decoder.decode(state, 0, text);
    decoder.finish(state, text);
    CHECK(text == "x\uFFFDx\uFFFD");
}

TEST_CASE("a run of fallback bytes loses what follows its first wrong byte, one U+FFFD a byte") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "ByteFallback"}, "model": {"vocab":
            {"<0xE2>": 0, "<0x82>": 1, "<0xAC>": 2, "<0xFF>": 3, "<0x41>": 4, "b": 5}}})");
    const TextDecoder decoder(table, true);
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 1, 2, 5}) == "€b");
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 1, 5}) == "\uFFFD\uFFFDb");
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}) == "€\uFFFD\uFFFDb");
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 4, 4, 5, 4}) == "\uFFFD\uFFFD\uFFFDbA");
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 1}) == "\uFFFD\uFFFD");
}

TEST_CASE("only the first token of prompt and output loses its space") {
    const TokenTable table = TokenTable::parse(
        R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true}],
            "decoder": {"type": "Metaspace"}, "model": {"vocab": {"▁▁a": 0, "▁b": 1}}})");
    const std::vector<std::int32_t> ids = {9, 5, 0, 1};
    CHECK(streamed(TextDecoder(table, true), ids) == "a b");
    CHECK(streamed(TextDecoder(table, false), ids) == "<s>  a b");
    CHECK(streamed(TextDecoder(table, true), std::vector<std::int32_t>{1}, ids) == "  a b");
    // A prompt without text is no beginning.
    CHECK(streamed(TextDecoder(table, true), std::vector<std::int32_t>{9}, ids) == "a b");
}

TEST_CASE("only the beginning of prompt and output is stripped") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "Sequence", "decoders": [
                {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"vocab": {"": 0, "a": 1, " b": 2}}})");
    const TextDecoder decoder(table, true);
    CHECK(streamed(decoder, std::vector<std::int32_t>{0}, std::vector<std::int32_t>{2, 2}) == "b b");
    CHECK(streamed(decoder, std::vector<std::int32_t>{0, 1, 0}, std::vector<std::int32_t>{2, 2}) == " b b");
}

TEST_CASE("a character that a prompt leaves unfinished is in the text") {
    const TokenTable table = TokenTable::parse(
        R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"xâ": 0, "Ĥ": 1, "¬y": 2}}})");
    const std::vector<std::int32_t> prompt = {2, 0, 0, 1};
    CHECK(streamed(TextDecoder(table, true), prompt, std::vector<std::int32_t>{2}) == "€y");
}

TEST_CASE("of a prompt that never hangs together as far as its end is looked at, the end counts") {
    // The three bytes of a character, none of which stands alone.
    const TokenTable table = TokenTable::parse_tiktoken("4g== 0\ngg== 1\nrA== 2\n");
    const TextDecoder decoder(table, true);
    for (const std::size_t length : {10UL, 1023UL, 1024UL, 1025UL, 100'000UL}) {
        const std::vector<std::int32_t> prompt(length, 0);
        CHECK(streamed(decoder, prompt, std::vector<std::int32_t>{1, 2}) == "\u20AC");
    }
}

TEST_CASE("a text begins in the same way after the tokens that are looked at of its prompt") {
    constexpr std::uint32_t kSize = 150;
    std::mt19937_64 random(52);
    for (const TokenizerKind& kind : tokenizer_kinds()) {
        INFO(kind.name);
        const TokenTable table = TokenTable::parse(random_tokenizer(kind, kSize, random).dump());
        for (const bool skips : {true, false}) {
            const TextDecoder decoder(table, skips);
            for (int i = 0; i < 30; ++i) {
                auto prompt = random_ids(random() % 5000, kSize, random);
                // Some hang together at neither end.
                const auto same = std::min<std::size_t>(prompt.size(), random() % 2000);
                if (i % 3 == 0) std::fill_n(prompt.begin(), same, prompt.empty() ? 0 : prompt.back());
                if (i % 3 == 1) std::fill_n(prompt.rbegin(), same, prompt.empty() ? 0 : prompt.front());
                const auto tokens = looked_at(prompt);
                REQUIRE(tokens.size() == std::min<std::size_t>(prompt.size(), 2049));
                const auto ids = random_ids(8, kSize, random);
                REQUIRE(streamed(decoder, tokens, ids) == streamed(decoder, prompt, ids));
            }
        }
    }
}

TEST_CASE(
    "a run of fallback bytes goes on in the same way after the tokens that are looked at of its prompt") {
    const nlohmann::json tokenizer = byte_tokenizer();
    const TokenTable table = TokenTable::parse(tokenizer.dump());
    std::mt19937_64 random(53);
    for (const bool skips : {true, false}) {
        const TextDecoder decoder(table, skips);
        for (int i = 0; i < 4000; ++i) {
            auto prompt = random_ids(random() % 1100, kByteTokens, random);
            const auto run = random_run(2080 - random() % 1090, random);
            prompt.insert(prompt.end(), run.begin(), run.end());
            const auto ids = random_run(8, random);
            const auto tokens = looked_at(prompt);
            if (streamed(decoder, tokens, ids) != streamed(decoder, prompt, ids)) {
                CAPTURE(i, skips, prompt.size());
                REQUIRE(streamed(decoder, tokens, ids) == streamed(decoder, prompt, ids));
            }
        }
    }
}

TEST_CASE("characters of a long run of fallback bytes are whole, wherever the prompt is cut") {
    const nlohmann::json tokenizer = byte_tokenizer();
    const TokenTable table = TokenTable::parse(tokenizer.dump());
    const TextDecoder decoder(table, true);
    for (const std::string character : {"a", "\u00E9", "\u20AC", "\U0001F600"}) {
        for (std::size_t length = 1020; length < 1040; ++length) {
            std::vector<std::int32_t> prompt = {kLetter, kSpecial};
            for (std::size_t at = 0; at < length; ++at)
                prompt.push_back(static_cast<std::uint8_t>(character[at % character.size()]));
            std::vector<std::int32_t> ids;
            for (std::size_t at = length; at % character.size() != 0 || ids.size() < 12; ++at)
                ids.push_back(static_cast<std::uint8_t>(character[at % character.size()]));
            std::vector<std::int32_t> all = prompt;
            all.insert(all.end(), ids.begin(), ids.end());
            INFO(character << " " << length);
            const std::size_t before = 1 + length / character.size() * character.size();
            CHECK(streamed(decoder, prompt, ids) == whole_decode(tokenizer, all, true).substr(before));
        }
    }
    // A wrong byte that is looked at replaces the rest of its run.
    std::vector<std::int32_t> prompt(1100, 0xAC);
    prompt.front() = kLetter;
    CHECK(streamed(decoder, prompt, std::vector<std::int32_t>{'a'}) == kReplacement);
    // One that is not replaces nothing.
    std::fill(prompt.begin() + 2, prompt.end(), 'a');
    CHECK(streamed(decoder, prompt, std::vector<std::int32_t>{'a'}) == "a");
}

TEST_CASE("a tokenizer without text token by token is refused by its decoder's name") {
    const auto fault = [](const std::string& decoder) {
        const TokenTable table =
            TokenTable::parse(R"({"decoder": )" + decoder + R"(, "model": {"vocab": {"##able": 0}}})");
        CHECK(table.find(0)->bytes == "##able");  // what tools show
        try {
            (void)TextDecoder(table, true);
        } catch (const TextError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const std::pair<const char*, const char*> cases[] = {
        {"null", "decoder is missing or null"},
        {R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
         "decoder: the decoder WordPiece is not supported"},
        {R"({"type": "CTC"})", "decoder: the decoder CTC is not supported, as it drops repeated tokens"},
        {R"({"type": "BPEDecoder", "suffix": "</w>"})", "the decoder BPEDecoder is not supported"},
        {R"({"type": "Magic"})", "decoder: the decoder 'Magic' is unknown; supported are ByteLevel"},
        {R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})", "has a regular expression"},
        {R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})", "has no pattern.String"},
        {R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})",
         "decoder.decoders[1]: the decoder ByteFallback follows Fuse, which leaves no tokens"},
        {R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace"}]})",
         "decoder.decoders[1]: the decoder Metaspace follows ByteFallback"},
        {R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": 0, "stop": 1}]})",
         "decoder.decoders[1]: the decoder Strip removes the end of the text"},
        {R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
         "the decoder Strip follows ByteFallback"},
    };
    for (const auto& [decoder, expected] : cases) CHECK_THAT(fault(decoder), Contains(expected));
}

}  // namespace croupier::text
