#include "event_log/line.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <boost/locale/utf.hpp>

namespace croupier::event_log {
namespace {

using Utf8 = boost::locale::utf::utf_traits<char>;

constexpr std::size_t kLongestMessage = 1200;
constexpr std::size_t kLongestValue = 256;

struct Range {
    char32_t first;
    char32_t last;
};

// Controls, what changes the direction of a line, what is not seen, and what is no character.
constexpr std::array<Range, 14> kUnprintable = {{{0x00, 0x1f},
                                                 {0x7f, 0x9f},
                                                 {0xad, 0xad},
                                                 {0x61c, 0x61c},
                                                 {0x180e, 0x180e},
                                                 {0x200b, 0x200f},
                                                 {0x2028, 0x202e},
                                                 {0x2060, 0x206f},
                                                 {0xe000, 0xf8ff},
                                                 {0xfe00, 0xfe0f},
                                                 {0xfeff, 0xfeff},
                                                 {0xfff0, 0xfffc},
                                                 {0xfffe, 0xffff},
                                                 {0xe0000, 0x10ffff}}};

bool printable(char32_t c) {
    return std::none_of(kUnprintable.begin(), kUnprintable.end(),
                        [c](const Range& range) { return range.first <= c && c <= range.last; });
}

void append_code(std::string& to, char32_t c) {
    const auto code = static_cast<std::uint32_t>(c);
    if (code < 0x10000) {
        fmt::format_to(std::back_inserter(to), "\\u{:04x}", code);
        return;
    }
    const std::uint32_t rest = code - 0x10000;
    fmt::format_to(std::back_inserter(to), "\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10U),
                   0xdc00 + (rest & 0x3ffU));
}

enum class Quoting { within, none };

void append_escaped(std::string& to, char32_t c, Quoting quoting) {
    if (quoting == Quoting::within && (c == '"' || c == '\\')) {
        to += '\\';
        to += static_cast<char>(c);
        return;
    }
    switch (c) {
        case '\n':
            to += "\\n";
            return;
        case '\t':
            to += "\\t";
            return;
        default:
            break;
    }
    if (printable(c)) {
        Utf8::encode(c, std::back_inserter(to));
    } else {
        append_code(to, c);
    }
}

bool bare(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               std::string_view("_-./:@+,%*").find(c) != std::string_view::npos;
    });
}

std::string quoted(std::string_view text, std::size_t most) {
    return '"' + escaped(text, most) + '"';
}

std::string value_of(const Field& field, Format format) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (text == nullptr) {
        const auto* below_zero = std::get_if<std::int64_t>(&field.value);
        return below_zero != nullptr ? std::to_string(*below_zero)
                                     : std::to_string(std::get<std::uint64_t>(field.value));
    }
    if (format == Format::text && text->size() <= kLongestValue && bare(*text)) return std::string(*text);
    return quoted(*text, kLongestValue);
}

std::string pair(std::string_view key, std::string_view value, Format format) {
    return format == Format::json ? fmt::format(",\"{}\":{}", key, value) : fmt::format(" {}={}", key, value);
}

std::string head_of(const Said& said, Format format) {
    const EventInfo& info = info_of(said.event);
    const auto ms = std::chrono::floor<std::chrono::milliseconds>(said.time);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
    const std::string time =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                    (ms - seconds).count());
    constexpr std::string_view kJson = R"({{"time":"{}","level":"{}","pid":{},"event":"{}","message":{})";
    constexpr std::string_view kText = "time={} level={} pid={} event={} message={}";
    return fmt::format(fmt::runtime(format == Format::json ? kJson : kText), time, name_of(info.level),
                       said.pid, info.name, quoted(said.message, kLongestMessage));
}

}  // namespace

namespace {

std::string escaped_for(Quoting quoting, std::string_view text, std::size_t most) {
    std::string out;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end && out.size() < most) {
        const char* next = at;
        const auto c = Utf8::decode(next, end);
        if (!boost::locale::utf::is_valid_codepoint(c)) {
            // One byte of it: what follows may be sound.
            out += "\xef\xbf\xbd";
            ++at;
            continue;
        }
        append_escaped(out, c, quoting);
        at = next;
    }
    if (at != end) out += fmt::format("... ({} bytes)", text.size());
    return out;
}

std::string_view mark_of(Level level) {
    if (level == Level::warn) return "warning: ";
    return level == Level::error || level == Level::critical ? "error: " : "";
}

}  // namespace

std::string escaped(std::string_view text, std::size_t most) {
    return escaped_for(Quoting::within, text, most);
}

std::string short_line_of(const Said& said) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(said.time);
    return fmt::format("{:%H:%M:%S} {}{}\n", fmt::localtime(seconds), mark_of(info_of(said.event).level),
                       escaped_for(Quoting::none, said.message, kLongestMessage));
}

std::string line_of(const Said& said, Format format) {
    const std::string_view end = format == Format::json ? "}\n" : "\n";
    std::string line = head_of(said, format);
    for (const Field& field : said.fields) {
        const std::string more = pair(field.key, value_of(field, format), format);
        if (line.size() + more.size() + end.size() > kLongestLine) break;
        line += more;
    }
    line += end;
    return line;
}

}  // namespace croupier::event_log
