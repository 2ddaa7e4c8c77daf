// A line holds whatever a peer says, and stays one line that both people and collectors can read.
#include "event_log/line.h"

#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

using namespace croupier::event_log;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::chrono::system_clock::time_point kTime{std::chrono::milliseconds(1'795'413'006'007)};

std::string line(std::string_view message, std::span<const Field> fields, Format format) {
    return line_of({Event::open_refused, message, fields, kTime, 42}, format);
}

// As a collector reads key=value: a value is bare up to a space, or a JSON string.
json pairs_of(const std::string& text) {
    json pairs = json::object();
    std::size_t at = 0;
    while (at < text.size() && text[at] != '\n') {
        const std::size_t equals = text.find('=', at);
        REQUIRE(equals != std::string::npos);
        const std::string key = text.substr(at, equals - at);
        REQUIRE_FALSE(pairs.contains(key));
        std::size_t end = equals + 1;
        if (text[end] == '"') {
            for (++end; text.at(end) != '"'; ++end) end += text[end] == '\\' ? 1U : 0U;
            ++end;
            pairs[key] = json::parse(text.substr(equals + 1, end - equals - 1));
        } else {
            end = text.find_first_of(" \n", end);
            pairs[key] = text.substr(equals + 1, end - equals - 1);
        }
        REQUIRE((text.at(end) == ' ' || text.at(end) == '\n'));
        at = end + (text[end] == ' ' ? 1U : 0U);
    }
    return pairs;
}

bool prints_as_it_is(const std::string& text) {
    return std::all_of(text.begin(), text.end() - 1,
                       [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
}

}  // namespace

TEST_CASE("a line says when, how bad, who, what happened, in words, and with what") {
    const std::array<Field, 4> fields = {
        {{"session", "replica 0"}, {"rank", 3U}, {"offset", -5}, {"path", "/dev/shm/a.seg"}}};
    CHECK(line("it is so", fields, Format::text) ==
          "time=2026-11-23T05:50:06.007Z level=warn pid=42 event=open_refused message=\"it is so\" "
          "session=\"replica 0\" rank=3 offset=-5 path=/dev/shm/a.seg\n");
    CHECK(
        line("it is so", fields, Format::json) ==
        R"({"time":"2026-11-23T05:50:06.007Z","level":"warn","pid":42,"event":"open_refused","message":"it is so",)"
        R"("session":"replica 0","rank":3,"offset":-5,"path":"/dev/shm/a.seg"})"
        "\n");
}

TEST_CASE("what a peer says forges no line, no key and no terminal's escape") {
    const std::string hostile = GENERATE(
        std::string("x\n2026 level=critical forged"), std::string("a\" event=ready b=\""),
        std::string("\x1b[2J\x1b]0;title\x07"), std::string("back\\slash\\"), std::string("\r\t\x00 nul", 7),
        std::string("\xc2\x9b"
                    "31m one byte CSI"),
        std::string("\xe2\x80\xae"
                    "right to left"),
        std::string("line\xe2\x80\xa8separator"), std::string("caf\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80"),
        std::string("\xff\xfe\xc3"), std::string("\xed\xa0\x80 surrogate"), std::string("\xc0\xaf overlong"),
        std::string("cut \xe4\xbd"), std::string("\xf3\xa0\x81\x81 tag"), std::string(" "), std::string(),
        std::string("="), std::string("a=b"));
    for (const Format format : {Format::text, Format::json}) {
        const std::array<Field, 2> fields = {{{"session", hostile}, {"rank", 7U}}};
        const std::string said = line(hostile, fields, format);
        CHECK(std::count(said.begin(), said.end(), '\n') == 1);
        CHECK(said.back() == '\n');
        CHECK(prints_as_it_is(said));
        for (const char* raw : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\xa8", "\xf3\xa0\x81\x81"})
            CHECK(said.find(raw) == std::string::npos);
        const json read = format == Format::json ? json::parse(said) : pairs_of(said);
        CHECK(read["event"] == "open_refused");
        CHECK(read["message"] == read["session"]);
        // Sound UTF-8 comes back as it was.
        if (json(hostile).dump(-1, ' ', false, json::error_handler_t::replace).find("\xef\xbf\xbd") ==
            std::string::npos) {
            CHECK(read["message"] == hostile);
        } else {
            CHECK_THAT(read["message"].get<std::string>(), Contains("\xef\xbf\xbd"));
        }
    }
}

TEST_CASE("a short line has the time, a mark for what is wrong, and what is said, once") {
    const std::array<Field, 1> fields = {{{"key", "instance"}}};
    const auto short_line = [&](Event event, std::string_view message) {
        return short_line_of({event, message, fields, kTime, 42});
    };
    CHECK(short_line(Event::setting, "instance is \"b\"").substr(8) == " instance is \"b\"\n");
    CHECK(short_line(Event::open_refused, "no").substr(8) == " warning: no\n");
    CHECK(short_line(Event::cannot_start, "no").substr(8) == " error: no\n");
    const std::string hostile = short_line(Event::open_refused, "x\nforged\x1b[2J\xc2\x9b");
    CHECK(std::count(hostile.begin(), hostile.end(), '\n') == 1);
    CHECK(prints_as_it_is(hostile));
    CHECK(hostile.find('\xc2') == std::string::npos);
}

TEST_CASE("a byte that is not UTF-8 takes nothing of what follows with it") {
    CHECK(escaped("\xe4\nx", 100) == "\xef\xbf\xbd\\nx");
    CHECK(escaped("\xf0\x9f\"", 100) == "\xef\xbf\xbd\xef\xbf\xbd\\\"");
}

TEST_CASE("a huge text is cut, says how long it was, and the line fits a pipe in one piece") {
    const std::string huge(16U << 20U, GENERATE('x', '\n', '\xff'));
    const std::vector<Field> fields(40, Field("name", huge));
    for (const Format format : {Format::text, Format::json}) {
        const std::string said = line(huge, fields, format);
        CHECK(said.size() <= kLongestLine);
        CHECK_THAT(said, Contains("... (16777216 bytes)\""));
        if (format == Format::json) CHECK(json::accept(said));
    }
}

TEST_CASE("random bytes always give one line that both readers read") {
    std::mt19937_64 random(17);
    for (int round = 0; round < 20000; ++round) {
        std::string bytes(random() % 60, ' ');
        for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() % 256 : 32 + random() % 96);
        const std::array<Field, 1> fields = {{{"name", bytes}}};
        const std::string as_json = line(bytes, fields, Format::json);
        const std::string as_text = line(bytes, fields, Format::text);
        REQUIRE(prints_as_it_is(as_json));
        REQUIRE(prints_as_it_is(as_text));
        REQUIRE(json::parse(as_json)["name"] == pairs_of(as_text)["name"]);
    }
}
