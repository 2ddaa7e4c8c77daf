#include "testing/text_reference.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "testing/json_reference.h"

namespace croupier::testing {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

struct Decoded {
    std::string text;
    std::string rest;  // the beginning of a character
};

bool is_between(std::uint8_t byte, std::uint8_t low, std::uint8_t high) {
    return byte >= low && byte <= high;
}

// The bytes of the character that `lead` begins; 0: it begins none.
std::size_t bytes_of_character(std::uint8_t lead) {
    if (lead < 0x80) return 1;
    if (is_between(lead, 0xC2, 0xDF)) return 2;
    if (is_between(lead, 0xE0, 0xEF)) return 3;
    return is_between(lead, 0xF0, 0xF4) ? 4 : 0;
}

bool may_follow(std::uint8_t lead, std::size_t place, std::uint8_t byte) {
    if (place > 1) return is_between(byte, 0x80, 0xBF);
    if (lead == 0xE0) return is_between(byte, 0xA0, 0xBF);
    if (lead == 0xED) return is_between(byte, 0x80, 0x9F);
    if (lead == 0xF0) return is_between(byte, 0x90, 0xBF);
    if (lead == 0xF4) return is_between(byte, 0x80, 0x8F);
    return is_between(byte, 0x80, 0xBF);
}

// U+FFFD stands for each longest beginning of a character that is not finished, as in Rust and Python.
Decoded decode(const std::string& bytes) {
    Decoded decoded;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto lead = static_cast<std::uint8_t>(bytes[at]);
        const std::size_t wanted = bytes_of_character(lead);
        std::size_t have = 1;
        while (have < wanted && at + have < bytes.size() &&
               may_follow(lead, have, static_cast<std::uint8_t>(bytes[at + have])))
            ++have;
        if (have == wanted) {
            decoded.text += bytes.substr(at, have);
        } else if (wanted != 0 && at + have == bytes.size()) {
            decoded.rest = bytes.substr(at);
        } else {
            decoded.text += kReplacement;
        }
        at += have;
    }
    return decoded;
}

std::string bytes_of(const Pieces& pieces, std::span<const std::int32_t> tokens) {
    std::string bytes;
    for (const std::int32_t token : tokens) {
        if (static_cast<std::size_t>(token) < pieces.size()) bytes += pieces[static_cast<std::size_t>(token)];
    }
    return bytes;
}

struct Match {
    std::size_t end = 0;
    std::uint32_t stop = 0;
    std::size_t begin = 0;
};

// Of those that are complete behind `before` bytes, the one that is complete first.
std::optional<Match> first_match(const std::string& text, std::size_t before,
                                 const std::vector<std::string>& stops) {
    for (std::size_t end = before + 1; end <= text.size(); ++end) {
        for (std::uint32_t i = 0; i < stops.size(); ++i) {
            if (std::string_view(text).substr(0, end).ends_with(stops[i]))
                return Match{end, i, end - stops[i].size()};
        }
    }
    return std::nullopt;
}

// Of those that are complete behind `before` bytes, the first.
std::optional<JsonValue> first_value(const std::string& text, std::size_t before) {
    for (const JsonValue& value : json_values(text)) {
        if (value.complete > before) return value;
    }
    return std::nullopt;
}

std::size_t held_of(const std::string& text, const std::vector<std::string>& stops) {
    std::size_t held = 0;
    for (const std::string& stop : stops) {
        for (std::size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
            if (text.ends_with(std::string_view(stop).substr(0, size))) held = std::max(held, size);
        }
    }
    return held;
}

std::string whole(const Decoded& decoded) {
    return decoded.text + (decoded.rest.empty() ? "" : kReplacement);
}

}  // namespace

std::string small_alphabet_piece(std::uint32_t id) {
    if (id % 11 == 5) return {};
    // No symbol begins another one, so that no two numbers have the same symbols.
    static const std::array<std::string, 6> kSymbols = {"a", "b", "\xE2\x82", "\xAC", "\xC3", "\xF0\x9F"};
    // Mostly letters.
    const std::uint32_t base = id % 4 == 0 ? 6 : 2;
    std::string piece = id % 4 == 0 ? "" : "c";
    for (std::uint32_t left = id / 4 + 1; left > 0; left = (left - 1) / base)
        piece += kSymbols[(left - 1) % base];
    if (id % 4 == 2) piece += "d";
    if (id % 4 == 3) piece += "\u20AC";
    return piece;
}

Pieces small_alphabet_pieces(std::uint32_t ids) {
    Pieces pieces(ids);
    for (std::uint32_t id = 0; id < ids; ++id) pieces[id] = small_alphabet_piece(id);
    return pieces;
}

std::string tiktoken_file(const Pieces& pieces) {
    static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string file;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
        const std::string& piece = pieces[id];
        if (piece.empty()) continue;
        for (std::size_t at = 0; at < piece.size(); at += 3) {
            std::uint32_t bits = 0;
            const std::size_t count = std::min<std::size_t>(3, piece.size() - at);
            for (std::size_t i = 0; i < 3; ++i)
                bits = bits << 8U | (i < count ? static_cast<std::uint8_t>(piece[at + i]) : 0U);
            for (std::size_t i = 0; i < 4; ++i)
                file += i <= count ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
        }
        file += " " + std::to_string(id) + "\n";
    }
    return file;
}

TokenizerFile::TokenizerFile(const std::string& contents) : owner_(::getpid()) {
    static std::atomic<int> number{0};
    const std::string name = "croupier-tokenizer-" + std::to_string(owner_) + "-" + std::to_string(++number);
    path_ = std::filesystem::temp_directory_path() / name;
    std::ofstream file(path_, std::ios::binary);
    if (!(file << contents).flush()) throw std::runtime_error("cannot write " + path_);
}

TokenizerFile::~TokenizerFile() {
    // Forked children have a copy of this object.
    if (owner_ == ::getpid()) std::remove(path_.c_str());
}

std::string unfinished_of(const Pieces& pieces, std::span<const std::int32_t> prompt) {
    return decode(bytes_of(pieces, prompt)).rest;
}

ReferenceRules rules_of(const client::Sequence& sequence) {
    return {sequence.stop_strings, sequence.params.min_tokens,
            (sequence.params.flags & CROUPIER_INCLUDE_STOP) != 0,
            (sequence.params.flags & CROUPIER_STOP_AT_JSON) != 0};
}

OtherEnd other_end(unsigned flags) {
    if ((flags & (CROUPIER_STOPPED_EOS | CROUPIER_STOPPED_TOKEN)) != 0) return OtherEnd::by_id;
    return (flags & CROUPIER_STOPPED) != 0 ? OtherEnd::otherwise : OtherEnd::none;
}

ReferenceText reference_text(const Pieces& pieces, const ReferenceRules& rules, const std::string& unfinished,
                             std::span<const std::int32_t> output, OtherEnd end) {
    if (output.empty()) return {};
    const Decoded before = decode(unfinished + bytes_of(pieces, output.first(output.size() - 1)));
    const Decoded after = decode(unfinished + bytes_of(pieces, output));
    if (end == OtherEnd::by_id && !rules.include_stop) return {whole(before), std::nullopt};
    if (end != OtherEnd::none) return {whole(after), std::nullopt};
    const bool looks = output.size() > rules.min_tokens;
    const auto match = looks ? first_match(after.text, before.text.size(), rules.stops) : std::nullopt;
    const auto value =
        looks && rules.stop_at_json ? first_value(after.text, before.text.size()) : std::nullopt;
    if (match && (!value || match->end <= value->complete)) {
        return {after.text.substr(0, rules.include_stop ? match->end : match->begin),
                client::TextStop{CROUPIER_STOPPED_STRING, match->stop, match->begin}};
    }
    if (value)
        return {after.text.substr(0, value->end), client::TextStop{CROUPIER_STOPPED_JSON, 0, value->begin}};
    const std::size_t held = rules.include_stop ? 0 : held_of(after.text, rules.stops);
    return {after.text.substr(0, after.text.size() - held), std::nullopt};
}

}  // namespace croupier::testing
