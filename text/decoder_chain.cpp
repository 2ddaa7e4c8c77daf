#include "text/decoder_chain.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "text/shown_text.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

// Every character of GPT-2's alphabet is below this.
constexpr std::uint32_t kAlphabetEnd = 0x144;
// Of a decoder, beside the bytes that it looks at.
constexpr std::uint64_t kWorkOfStep = 32;
constexpr const char* kSupported =
    "supported are ByteLevel, ByteFallback, Metaspace, Replace, Strip, Fuse and Sequence";

// GPT-2 writes bytes as printable characters: printable Latin-1 as itself, other bytes from U+0100 on.
constexpr std::array<std::int16_t, kAlphabetEnd> byte_alphabet() {
    std::array<std::int16_t, kAlphabetEnd> bytes{};
    for (std::int16_t& each : bytes) each = -1;
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 0x100; ++byte) {
        const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        bytes[is_itself ? byte : next++] = static_cast<std::int16_t>(byte);
    }
    return bytes;
}

// A piece with any other character is used as it is, as Hugging Face does: added tokens are such.
std::string from_byte_level(std::string_view piece) {
    static constexpr auto kAlphabet = byte_alphabet();
    std::string bytes;
    for (std::size_t at = 0; at < piece.size();) {
        const auto lead = static_cast<std::uint8_t>(piece[at]);
        std::uint32_t code = lead;
        if (lead >= 0xC0) {
            const auto low = static_cast<std::uint8_t>(at + 1 < piece.size() ? piece[at + 1] : 0);
            code = lead < 0xE0 ? (lead & 0x1FU) << 6U | (low & 0x3FU) : kAlphabetEnd;
        }
        if (code >= kAlphabetEnd || kAlphabet[code] < 0) return std::string(piece);
        bytes += static_cast<char>(kAlphabet[code]);
        at += lead < 0xC0 ? 1 : 2;
    }
    return bytes;
}

// "<0x41>" is a byte; so is "<0x+1>", as Rust reads numbers.
std::optional<char> fallback_byte(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
    std::string_view digits = piece.substr(3, 2);
    if (digits.front() == '+') digits.remove_prefix(1);
    std::uint8_t byte = 0;
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, byte, 16);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    return static_cast<char>(byte);
}

// Stops when the result is too long.
std::string replaced(std::string_view piece, std::string_view pattern, std::string_view content) {
    std::string result;
    for (;;) {
        const std::size_t at = piece.find(pattern);
        result += piece.substr(0, at);
        if (at == std::string_view::npos) return result;
        result += content;
        if (result.size() > kMostTokenBytes) return result;
        piece.remove_prefix(at + pattern.size());
    }
}

std::string stripped_of(std::string_view piece, const DecoderStep& step) {
    for (std::uint64_t i = 0; i < step.start && piece.starts_with(step.content); ++i)
        piece.remove_prefix(step.content.size());
    for (std::uint64_t i = 0; i < step.stop && piece.ends_with(step.content); ++i)
        piece.remove_suffix(step.content.size());
    return std::string(piece);
}

void check_length(std::string_view piece, std::size_t bytes) {
    if (bytes <= kMostTokenBytes) return;
    throw TextError("the token " + in_quotes(piece) + " has more than " + std::to_string(kMostTokenBytes) +
                    " bytes");
}

}  // namespace

DecoderChain::DecoderChain()
    : fault_(
          "decoder is missing or null: Hugging Face's format then puts a space between all tokens, which no "
          "model means; it should be the decoder of the model's tokenizer, as {\"type\": \"ByteLevel\"}") {}

DecoderChain::DecoderChain(const std::vector<DecoderStep>& steps) {
    for (const DecoderStep& step : steps) {
        if (fault_.empty()) add(step);
    }
}

DecoderChain DecoderChain::of_bytes() {
    DecoderChain chain{std::vector<DecoderStep>{}};
    chain.joining_ = Joining::kBytes;
    return chain;
}

void DecoderChain::add(const DecoderStep& step) {
    const std::string& type = step.type;
    const std::string subject = step.place + ": the decoder " + type;
    if (type == "Sequence") return;  // its members follow
    if (type == "BPEDecoder" || type == "WordPiece" || type == "CTC") {
        const std::string why = type == "BPEDecoder"  ? "a token's text changes when another follows"
                                : type == "WordPiece" ? "it removes spaces before punctuation again"
                                                      : "it drops repeated tokens";
        fault_ = subject + " is not supported, as " + why + "; " + kSupported;
    } else if (type == "ByteLevel" || type == "ByteFallback" || type == "Fuse") {
        if (type != "Fuse" && !joined_by_.empty()) {
            fault_ = subject + " follows " + joined_by_ + ", which leaves no tokens; it should be before it";
            return;
        }
        has_alphabet_ |= type == "ByteLevel";
        if (type == "ByteLevel") joining_ = Joining::kBytes;
        if (type == "ByteFallback") joining_ = Joining::kByteFallback;
        joined_by_ = type;
        is_one_piece_ = type != "ByteFallback";
    } else if (type == "Replace" || type == "Metaspace" || type == "Strip") {
        joined_by_.empty() ? add_to_pieces(step) : add_to_text(step);
    } else {
        fault_ = step.place + ": the decoder '" + shown_text(type) + "' is unknown; " + kSupported;
    }
}

void DecoderChain::add_to_pieces(const DecoderStep& step) {
    if (step.type == "Replace" && step.is_regex) {
        fault_ =
            step.place + ": the decoder Replace has a regular expression; it should have a pattern.String";
    } else if (step.type == "Replace" && step.pattern.empty()) {
        fault_ = step.place + ": the decoder Replace has no pattern.String, or an empty one";
    } else if (step.type == "Strip" && step.content.empty()) {
        fault_ = step.place + ": the decoder Strip has no content; it should be one character";
    } else {
        on_pieces_.push_back(step);
    }
}

void DecoderChain::add_to_text(const DecoderStep& step) {
    const std::string subject = step.place + ": the decoder " + step.type;
    if (step.type != "Strip" || !is_one_piece_) {
        fault_ = subject + " follows " + joined_by_ +
                 ", after which it would see more than one token; it should be before it";
    } else if (step.stop != 0) {
        fault_ = subject + " removes the end of the text (stop is " + std::to_string(step.stop) +
                 "), which is not known before the last token; stop should be 0";
    } else if (step.content.empty() || !stripped_.empty() || step.start > UINT8_MAX) {
        fault_ = subject +
                 " should be the only one here, with one character as content and a start of at most 255";
    } else {
        stripped_ = step.content;
        stripped_count_ = static_cast<std::uint8_t>(step.start);
    }
}

bool DecoderChain::treats_first() const {
    for (const DecoderStep& step : on_pieces_) {
        if (step.type == "Metaspace" && step.prepends) return true;
    }
    return false;
}

DecoderChain::Decoded DecoderChain::decode(std::string_view piece, bool is_first, std::uint64_t& work) const {
    check_length(piece, piece.size());
    Decoded result{std::string(piece), false};
    work += piece.size();
    for (const DecoderStep& step : on_pieces_) {
        // A search may compare most of the pattern at every byte.
        work += kWorkOfStep + result.bytes.size() * (1 + std::min(step.pattern.size(), result.bytes.size()));
        if (step.type == "Replace") {
            result.bytes = replaced(result.bytes, step.pattern, step.content);
        } else if (step.type == "Metaspace") {
            result.bytes = replaced(result.bytes, step.replacement, is_first && step.prepends ? "" : " ");
        } else {
            result.bytes = stripped_of(result.bytes, step);
        }
        check_length(piece, result.bytes.size());  // Replace may lengthen it
    }
    if (has_alphabet_) result.bytes = from_byte_level(result.bytes);
    if (joining_ == Joining::kByteFallback) {
        if (const auto byte = fallback_byte(result.bytes)) result = {std::string(1, *byte), true};
    }
    return result;
}

}  // namespace croupier::text
