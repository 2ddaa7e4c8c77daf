#include "config/syntax_error.h"

#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "config/texts.h"

namespace croupier::config {

namespace {

std::string_view content_of(std::string_view line) {
    line = line.substr(0, line.find(" #"));
    const std::size_t first = std::min(line.find_first_not_of(" \t\r"), line.size());
    line.remove_prefix(first);
    return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

bool has_colon(std::string_view content) {
    return content.find(": ") != std::string_view::npos || content.back() == ':';
}

std::optional<SyntaxProblem> colon_lacking_in(const Lines& lines, std::size_t line) {
    const std::string_view content = content_of(lines[line]);
    if (content.empty() || has_colon(content) || with_colon(content).empty()) return std::nullopt;
    const auto indent = static_cast<std::size_t>(content.data() - lines[line].data());
    return SyntaxProblem{{static_cast<int>(line) + 1, static_cast<int>(indent) + 1},
                         quoted(content) + " lacks a colon followed by a space after the key; write " +
                             quoted(with_colon(content))};
}

// The last line with text.
std::optional<std::size_t> text_above(const Lines& lines, std::size_t line) {
    while (line-- > 0) {
        const std::string_view content = content_of(lines[line]);
        if (!content.empty() && content[0] != '#') return line;
    }
    return std::nullopt;
}

std::optional<SyntaxProblem> tab_before_text(const Lines& lines, std::size_t line) {
    const std::size_t tab = lines[line].find_first_not_of(' ');
    if (tab == std::string_view::npos || lines[line][tab] != '\t') return std::nullopt;
    return SyntaxProblem{{static_cast<int>(line) + 1, static_cast<int>(tab) + 1},
                         "the line is indented with a tab; indent with spaces"};
}

std::string meaning_of(const std::string& message) {
    struct Cause {
        std::string_view message;
        std::string_view meaning;
    };
    static const std::array<Cause, 7> causes{{
        {YAML::ErrorMsg::MAP_VALUE,
         "a colon stands where none can: indent the line like the keys beside it, and quote a value that "
         "contains \": \""},
        {YAML::ErrorMsg::END_OF_MAP,
         "the line is indented unlike the keys beside it, or text follows a closing quote"},
        {YAML::ErrorMsg::END_OF_MAP_FLOW, "a bracket, {, is opened here and never closed"},
        {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a bracket, [, is opened here and never closed"},
        {YAML::ErrorMsg::TAB_IN_INDENTATION, "the line is indented with a tab; indent with spaces"},
        {YAML::ErrorMsg::UNKNOWN_TOKEN, "a value cannot begin with this character; put it in quotes"},
        {YAML::ErrorMsg::UNKNOWN_ANCHOR,
         "aliases (*name) are not accepted; quote a value that begins with *"},
    }};
    const auto* const cause =
        std::find_if(causes.begin(), causes.end(), [&](const Cause& c) { return c.message == message; });
    return cause == causes.end() ? message : std::string(cause->meaning);
}

}  // namespace

SyntaxProblem explain(const YAML::Exception& error, const Lines& lines, Place opened) {
    const Place noticed{error.mark.line + 1, error.mark.column + 1};
    if (error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW)
        return {opened, meaning_of(error.msg)};
    const auto line = static_cast<std::size_t>(error.mark.line);
    if (error.mark.line < 0 || line >= lines.size()) return {noticed, meaning_of(error.msg)};
    if (error.msg == YAML::ErrorMsg::END_OF_MAP) {
        if (auto lacking = colon_lacking_in(lines, line)) return *std::move(lacking);
    }
    if (error.msg == YAML::ErrorMsg::MAP_VALUE) {
        if (auto tab = tab_before_text(lines, line)) return *std::move(tab);
        // A key without its colon is text, which runs on until yaml-cpp stumbles over the next colon.
        const auto above = text_above(lines, line);
        if (auto lacking = above ? colon_lacking_in(lines, *above) : std::nullopt) return *std::move(lacking);
    }
    return {noticed, meaning_of(error.msg)};
}

}  // namespace croupier::config
