#include "tools/doctor/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "command_line/text_width.h"

namespace croupier::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;

struct LevelText {
    Level level;
    const char* name;   // in JSON
    const char* title;  // for a person
    const char* colour;
};
constexpr std::array<LevelText, 4> kLevels = {{{Level::broken, "broken", "WILL NOT WORK", "1;31"},
                                               {Level::slower, "slower", "WORKS, BUT SLOWER", "1;33"},
                                               {Level::fine, "fine", "FINE", "1;32"},
                                               {Level::skipped, "skipped", "NOT CHECKED", "1"}}};
constexpr std::size_t kTextColumn = 20;

const LevelText& text_of(Level level) {
    return *std::find_if(kLevels.begin(), kLevels.end(),
                         [&](const auto& each) { return each.level == level; });
}

std::size_t count_of(const std::vector<Finding>& findings, Level level) {
    return static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(),
                                                  [&](const auto& each) { return each.level == level; }));
}

// Names of files and users are others' bytes, and a terminal obeys some of them.
std::string printable(const std::string& text) {
    std::string line;
    for (const char c : text) {
        if (c >= ' ' && c < 127) {
            line += c;
        } else {
            line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return line;
}

bool no_daemon_runs(const std::vector<Finding>& findings) {
    const Fact absent{"state", std::string("absent")};
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
        const auto& facts = finding.facts;
        return finding.check == "daemon.answers" &&
               std::find(facts.begin(), facts.end(), absent) != facts.end();
    });
}

std::string verdict(Level level, const std::vector<Finding>& findings) {
    const std::string daemon = no_daemon_runs(findings) ? "; no daemon is running" : "";
    switch (level) {
        case Level::broken:
            return "Croupier will not work on this host as it is";
        case Level::slower:
            return "Croupier works on this host, but slower than it could" + daemon;
        default:
            return "This host is suitable for Croupier" + daemon;
    }
}

std::string lines_of(const Finding& finding, const TerminalStyle& style) {
    std::string text = fmt::format("  {:<{}}{}\n", finding.check, kTextColumn - 2,
                                   command_line::wrapped(printable(finding.what), kTextColumn, style.width));
    if (finding.remedy.empty()) return text;
    return text + std::string(kTextColumn, ' ') + painted("-> ", "36", style) +
           command_line::wrapped(printable(finding.remedy), kTextColumn + 3, style.width) + "\n";
}

}  // namespace

const char* level_name(Level level) {
    return text_of(level).name;
}

Level worst(const std::vector<Finding>& findings) {
    if (count_of(findings, Level::broken) > 0) return Level::broken;
    return count_of(findings, Level::slower) > 0 ? Level::slower : Level::fine;
}

int exit_status(Level worst) {
    return worst == Level::broken ? 2 : worst == Level::slower ? 1 : 0;
}

std::string to_json(const std::vector<Finding>& findings, double seconds) {
    const Level level = worst(findings);
    Json answer = {{"schema", kSchemaVersion},     {"version", CROUPIER_VERSION},
                   {"verdict", level_name(level)}, {"exit", exit_status(level)},
                   {"seconds", seconds},           {"findings", Json::array()}};
    for (const Finding& finding : findings) {
        Json facts = Json::object();
        for (const auto& [name, value] : finding.facts) {
            std::visit([&, key = name](const auto& known) { facts[key] = known; }, value);
        }
        answer["findings"].push_back({{"check", finding.check},
                                      {"level", level_name(finding.level)},
                                      {"what", finding.what},
                                      {"remedy", finding.remedy},
                                      {"facts", facts}});
    }
    // Names of files are bytes: what is not UTF-8 is replaced instead of raising an exception.
    return answer.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string to_terminal(const std::vector<Finding>& findings, double seconds, const TerminalStyle& style) {
    const Level level = worst(findings);
    std::string counts;
    for (const LevelText& each : kLevels) {
        const std::size_t count = count_of(findings, each.level);
        if (count > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, each.name);
    }
    std::string text = painted(verdict(level, findings), text_of(level).colour, style) +
                       fmt::format(": {} ({:.2f} s)\n", counts, seconds);
    for (const LevelText& each : kLevels) {
        if (count_of(findings, each.level) == 0) continue;
        text += "\n" + painted(each.title, each.colour, style) + "\n";
        for (const Finding& finding : findings) {
            if (finding.level == each.level) text += lines_of(finding, style);
        }
    }
    return text;
}

}  // namespace croupier::tools::doctor
