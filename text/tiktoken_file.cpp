#include "text/tiktoken_file.h"

#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "proto/geometry.h"
#include "text/shown_text.h"
#include "text/text_error.h"

namespace croupier::text {
namespace {

std::optional<std::uint32_t> sextet(char digit) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t at = kDigits.find(digit);
    if (at == std::string_view::npos) return std::nullopt;
    return static_cast<std::uint32_t>(at);
}

// With padding, and with zeros in the bits that it leaves over.
std::optional<std::string> from_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) return std::nullopt;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    std::string bytes;
    std::uint32_t bits = 0;
    std::uint32_t count = 0;
    for (const char digit : text.substr(0, text.size() - padding)) {
        const auto value = sextet(digit);
        if (!value) return std::nullopt;
        bits = bits << 6U | *value;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>(bits >> count & 0xFFU);
    }
    if ((bits & ((1U << count) - 1U)) != 0) return std::nullopt;
    return bytes;
}

}  // namespace

std::vector<Piece> read_tiktoken(std::string_view file) {
    std::vector<Piece> pieces;
    for (std::size_t number = 1; !file.empty(); ++number) {
        const std::size_t end = file.find('\n');
        std::string_view line = file.substr(0, end);
        file.remove_prefix(end == std::string_view::npos ? file.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty()) continue;
        const auto refuse = [number](const std::string& what) {
            throw TextError("line " + std::to_string(number) + " " + what);
        };
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos) {
            refuse("is " + in_quotes(line) +
                   "; it should be a token in base64, a space and its id: is it a tiktoken file?");
        }
        auto bytes = from_base64(line.substr(0, space));
        if (!bytes) refuse("does not begin with a token in base64");
        std::uint32_t id = 0;
        const auto read = std::from_chars(line.data() + space + 1, line.data() + line.size(), id);
        if (read.ec == std::errc::invalid_argument || read.ptr != line.data() + line.size())
            refuse("does not end with an id, a whole number after one space");
        if (read.ec != std::errc{} || id >= proto::kMaxVocab)
            refuse("has an id that is too large; allowed: the ids 0 to " +
                   std::to_string(proto::kMaxVocab - 1));
        if (pieces.size() >= proto::kMaxVocab)
            refuse("is one token too many; allowed: up to " + std::to_string(proto::kMaxVocab));
        pieces.push_back({std::move(*bytes), id});
    }
    if (pieces.empty()) throw TextError("the file has no token: is it a tokenizer.json or a tiktoken file?");
    return pieces;
}

}  // namespace croupier::text
