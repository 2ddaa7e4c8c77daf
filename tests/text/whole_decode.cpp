#include "tests/text/whole_decode.h"

#include <map>
#include <optional>

#include "text/utf8.h"

namespace croupier::text {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

std::vector<std::string> characters_of(const std::string& text) {
    std::vector<std::string> characters;
    for (const char byte : text) {
        if (characters.empty() || (static_cast<std::uint8_t>(byte) & 0xC0U) != 0x80U)
            characters.emplace_back();
        characters.back() += byte;
    }
    return characters;
}

std::string joined(const Strings& strings) {
    std::string result;
    for (const std::string& each : strings) result += each;
    return result;
}

std::string utf8_of(std::uint32_t code) {
    if (code < 0x80) return {static_cast<char>(code)};
    return {static_cast<char>(0xC0U | code >> 6U), static_cast<char>(0x80U | (code & 0x3FU))};
}

// U+FFFD for each maximal subpart, by trying the lengths of characters.
std::string lossy(const std::string& bytes) {
    std::string result;
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t whole = 0;
        std::size_t part = 1;
        for (std::size_t size = 1; size <= 4 && at + size <= bytes.size(); ++size) {
            const std::string tried = bytes.substr(at, size);
            if (is_utf8(tried) && characters_of(tried).size() == 1) whole = size;
            // A beginning of a character is one that some other bytes complete.
            for (const char* rest : {"\x80", "\x80\x80", "\x80\x80\x80", "\xA0\x80", "\x90\x80\x80"}) {
                const std::string completed = tried + rest;
                if (is_utf8(completed) && characters_of(completed).size() == 1) part = size;
            }
        }
        result += whole > 0 ? bytes.substr(at, whole) : std::string(kReplacement);
        at += whole > 0 ? whole : part;
    }
    return result;
}

Strings byte_level(const Strings& tokens) {
    std::map<std::string, char> alphabet;
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 0x100; ++byte) {
        const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        alphabet[utf8_of(is_itself ? byte : next++)] = static_cast<char>(byte);
    }
    std::string bytes;
    for (const std::string& token : tokens) {
        std::string decoded;
        bool is_encoded = true;
        for (const std::string& character : characters_of(token)) {
            const auto found = alphabet.find(character);
            is_encoded = is_encoded && found != alphabet.end();
            if (is_encoded) decoded += found->second;
        }
        bytes += is_encoded ? decoded : token;
    }
    return {lossy(bytes)};
}

std::optional<char> byte_of(const std::string& token) {
    if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
    const std::string digits = token.substr(3, 2);
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
    return static_cast<char>(std::stoi(digits, nullptr, 16));
}

Strings decoded_run(const std::string& run) {
    std::size_t valid = 0;
    for (std::size_t size = 1; size <= run.size(); ++size) {
        if (is_utf8(run.substr(0, size))) valid = size;
    }
    Strings result{run.substr(0, valid)};
    result.resize(1 + run.size() - valid, std::string(kReplacement));
    return result;
}

Strings byte_fallback(const Strings& tokens) {
    Strings result;
    std::string run;
    const auto end_run = [&] {
        for (const std::string& each : decoded_run(run)) result.push_back(each);
        run.clear();
    };
    for (const std::string& token : tokens) {
        if (const auto byte = byte_of(token)) {
            run += *byte;
            continue;
        }
        end_run();
        result.push_back(token);
    }
    end_run();
    return result;
}

std::string replaced(std::string text, const std::string& pattern, const std::string& content) {
    for (std::size_t at = text.find(pattern); at != std::string::npos;
         at = text.find(pattern, at + content.size()))
        text.replace(at, pattern.size(), content);
    return text;
}

std::string stripped(std::string token, const Json& decoder) {
    const auto content = decoder.at("content").get<std::string>();
    for (int i = 0; i < decoder.at("start").get<int>() && token.substr(0, content.size()) == content; ++i)
        token.erase(0, content.size());
    return token;
}

Strings decode_chain(const Json& decoder, Strings tokens) {
    const auto type = decoder.at("type").get<std::string>();
    if (type == "ByteLevel") return byte_level(tokens);
    if (type == "ByteFallback") return byte_fallback(tokens);
    if (type == "Fuse") return {joined(tokens)};
    if (type == "Sequence") {
        for (const Json& each : decoder.at("decoders")) tokens = decode_chain(each, tokens);
        return tokens;
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool is_first = i == 0;
        if (type == "Replace")
            tokens[i] = replaced(tokens[i], decoder.at("pattern").at("String"), decoder.at("content"));
        if (type == "Strip") tokens[i] = stripped(tokens[i], decoder);
        if (type == "Metaspace") {
            const bool drops = is_first && decoder.at("prepend_scheme") != "never";
            tokens[i] = replaced(tokens[i], decoder.at("replacement"), drops ? "" : " ");
        }
    }
    return tokens;
}

}  // namespace

std::string whole_decode(const Json& tokenizer, std::span<const std::int32_t> ids, bool skip_special) {
    std::map<std::int32_t, std::string> pieces;
    std::map<std::int32_t, bool> special;
    const Json& vocabulary = tokenizer.at("model").at("vocab");
    for (const auto& [piece, id] : vocabulary.items()) pieces[id.get<std::int32_t>()] = piece;
    for (const Json& added : tokenizer.at("added_tokens")) {
        pieces[added.at("id")] = added.at("content");
        special[added.at("id")] = added.at("special");
    }
    Strings tokens;
    for (const std::int32_t id : ids) {
        if (pieces.count(id) != 0 && !(skip_special && special[id])) tokens.push_back(pieces[id]);
    }
    return joined(decode_chain(tokenizer.at("decoder"), tokens));
}

}  // namespace croupier::text
