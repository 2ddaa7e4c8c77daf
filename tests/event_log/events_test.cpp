// The table of events, the page that is made of it, and the code that logs them.
#include "event_log/events.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace croupier::event_log;

namespace {

std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::set<std::string> events_that_code_logs() {
    std::set<std::string> names;
    for (const char* folder : {"daemon", "fan_out", "tools/relay", "event_log"}) {
        const std::filesystem::path root = std::filesystem::path(CROUPIER_SOURCE_DIR) / folder;
        for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
            if (file.path().extension() != ".cpp" || file.path().filename() == "events.cpp") continue;
            const std::string text = text_of(file.path());
            static const std::regex kUse(R"(\bEvent::(\w+))");
            for (std::sregex_iterator at(text.begin(), text.end(), kUse), end; at != end; ++at)
                names.insert((*at)[1]);
        }
    }
    return names;
}

}  // namespace

TEST_CASE("docs/log-events.md is what the table says") {
    const auto page = std::filesystem::path(CROUPIER_SOURCE_DIR) / "docs/log-events.md";
    INFO("write it with: build/release/bin/test_event_log '[write]'");
    CHECK(text_of(page) == reference_markdown());
}

TEST_CASE("writes docs/log-events.md", "[.][write]") {
    std::ofstream(std::filesystem::path(CROUPIER_SOURCE_DIR) / "docs/log-events.md") << reference_markdown();
}

TEST_CASE("every event of the table is logged somewhere, under its own name, and its names are words") {
    const std::set<std::string> logged = events_that_code_logs();
    std::set<std::string> names;
    for (std::size_t i = 0; i < kEvents; ++i) {
        const EventInfo& info = info_of(static_cast<Event>(i));
        CHECK(names.insert(std::string(info.name)).second);
        CHECK(std::regex_match(std::string(info.name), std::regex("[a-z]+(_[a-z]+)*")));
        CHECK_FALSE(info.means.empty());
        CHECK_FALSE(info.what_to_do.empty());
        INFO(info.name);
        CHECK(logged.contains(std::string(info.name)));
    }
    // The enumerator is the name: who greps for one finds the other.
    CHECK(names == logged);
}

TEST_CASE("whatever is worse than information says what to do") {
    for (std::size_t i = 0; i < kEvents; ++i) {
        const EventInfo& info = info_of(static_cast<Event>(i));
        INFO(info.name);
        if (info.level >= Level::error) CHECK(info.what_to_do != "none");
    }
}

TEST_CASE("no program writes to the log past its events") {
    for (const char* folder : {"daemon", "fan_out", "tools/relay"}) {
        const std::filesystem::path root = std::filesystem::path(CROUPIER_SOURCE_DIR) / folder;
        for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
            const auto kind = file.path().extension();
            if (kind != ".cpp" && kind != ".h") continue;
            INFO(file.path());
            CHECK(text_of(file.path()).find("spdlog::") == std::string::npos);
        }
    }
}
