// One event as one line: key=value for people, an object for collectors. Nothing in it can break the line,
// move a terminal's cursor or look like what it is not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "event_log/events.h"

namespace croupier::event_log {

enum class Format : std::uint8_t { text, json };
constexpr std::string_view name_of(Format format) {
    return format == Format::json ? "json" : "text";
}

// What a pipe takes in one piece: lines of several processes do not mix.
constexpr std::size_t kLongestLine = 4096;

struct Field {
    template <std::signed_integral Number>
    Field(std::string_view name, Number number) : key(name), value(std::int64_t{number}) {}
    template <std::unsigned_integral Number>
    Field(std::string_view name, Number number) : key(name), value(std::uint64_t{number}) {}
    Field(std::string_view name, std::string_view text) : key(name), value(text) {}
    Field(std::string_view name, const char* text) : key(name), value(std::string_view(text)) {}
    Field(std::string_view name, const std::string& text) : key(name), value(std::string_view(text)) {}

    std::string_view key;
    std::variant<std::int64_t, std::uint64_t, std::string_view> value;
};

struct Said {
    Event event;
    std::string_view message;
    std::span<const Field> fields;
    std::chrono::system_clock::time_point time;
    pid_t pid;
};

// Ends with a newline, and has no other.
std::string line_of(const Said& said, Format format);
// For a person who looks on: the local time and what is said, without the fields, which repeat it.
std::string short_line_of(const Said& said);

// As a JSON string has it: printable characters, everything else escaped; what is not UTF-8 is U+FFFD. Cut
// after about `most` bytes, and then says how long it was.
std::string escaped(std::string_view text, std::size_t most);

}  // namespace croupier::event_log
