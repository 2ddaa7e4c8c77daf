#include "command_line/help_format.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "command_line/text_width.h"

namespace croupier::command_line {
namespace {

constexpr std::size_t kColumn = 30;
// On narrower terminals, descriptions are below their options.
constexpr std::size_t kNarrow = 60;

// CLI11's description of an option's values: "UINT:UINT in [1 - 4096]" or "TEXT:{rows,lean}".
struct Values {
    std::string type;
    std::string allowed;
};

Values values_of(const CLI::Option& option) {
    const std::string name = option.get_type_name();
    const std::size_t colon = name.find(':');
    if (colon == std::string::npos) return {name, ""};
    return {name.substr(0, colon), name.substr(colon + 1)};
}

bool are_names(const std::string& allowed) {
    return !allowed.empty() && allowed.front() == '{';
}

// Converts "UINT in [1 - 4096]" to "1 to 4096".
std::string in_words(const std::string& allowed) {
    if (allowed == "POSITIVE") return "above 0";
    if (allowed == "NONNEGATIVE") return "0 or more";
    const std::size_t open = allowed.find(" in [");
    if (open == std::string::npos) return allowed;
    std::string range = allowed.substr(open + 5, allowed.size() - open - 6);
    const std::size_t dash = range.find(" - ");
    return dash == std::string::npos ? range : range.replace(dash, 3, " to ");
}

std::string value_of(const CLI::Option& option) {
    if (!option.get_option_text().empty()) return option.get_option_text();
    if (option.get_type_size() == 0) return "";
    const Values values = values_of(option);
    const bool many = option.get_expected_max() == CLI::detail::expected_max_vector_size;
    std::string text = values.type;
    if (are_names(values.allowed)) text = values.allowed;
    if (text == "UINT" || text == "INT" || text == "FLOAT") text = "NUMBER";
    return text + (many ? " ..." : "");
}

std::string names_of(const std::set<CLI::Option*>& options) {
    std::string names;
    for (const CLI::Option* option : options) names += (names.empty() ? "" : ", ") + option->get_name();
    return names;
}

// CLI11 writes the default of a list as "[5,20]", and that of an empty list as "[]".
std::string default_of(const CLI::Option& option) {
    const std::string text = option.get_default_str();
    return text.starts_with('[') && text.ends_with(']') ? text.substr(1, text.size() - 2) : text;
}

// " [1 to 4096; default 64]"
std::string details_of(const CLI::Option& option) {
    std::vector<std::string> details;
    const std::string allowed = values_of(option).allowed;
    if (option.get_type_size() != 0 && !allowed.empty() && !are_names(allowed))
        details.push_back(in_words(allowed));
    if (option.get_type_size() != 0 && !default_of(option).empty())
        details.push_back("default " + default_of(option));
    if (option.get_required()) details.emplace_back("required");
    if (!option.get_needs().empty()) details.push_back("only with " + names_of(option.get_needs()));
    if (!option.get_excludes().empty()) details.push_back("not with " + names_of(option.get_excludes()));
    if (!option.get_envname().empty()) details.push_back("Env:" + option.get_envname());
    return details.empty() ? "" : " [" + CLI::detail::join(details, "; ") + "]";
}

// Lists of names may be longer than a line: breaks them after commas.
std::string broken_at_commas(const std::string& text, std::size_t width) {
    std::string result;
    std::size_t used = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t comma = text.find(',', at);
        const std::size_t end = comma == std::string::npos ? text.size() : comma + 1;
        if (used > 0 && used + end - at > width) {
            result += "\n        ";
            used = 8;
        }
        result += text.substr(at, end - at);
        used += end - at;
        at = end;
    }
    return result;
}

}  // namespace

std::string HelpFormat::row(const std::string& left, const std::string& right) const {
    const std::size_t column = width_ < kNarrow ? 6 : kColumn;
    std::string text = broken_at_commas("  " + left, width_);
    if (right.empty()) return text + "\n";
    const bool beside = text.size() + 2 <= column;
    text += beside ? std::string(column - text.size(), ' ') : "\n" + std::string(column, ' ');
    return text + wrapped(right, column, width_) + "\n";
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    // CLI11 puts two empty lines between groups of options.
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text;
}

std::string HelpFormat::make_description(const CLI::App* app) const {
    return wrapped(app->get_description(), 0, width_) + "\n";
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
    const std::string value = value_of(*option);
    const std::string name = make_option_name(option, is_positional);
    return row(name + (value.empty() ? "" : " " + value), option->get_description() + details_of(*option));
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
    return row(command->get_name(), command->get_description());
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
    std::istringstream lines(app->get_footer());
    std::string text;
    std::string paragraph;
    const auto end_paragraph = [&] {
        if (!paragraph.empty()) text += wrapped(paragraph, 0, width_) + "\n";
        paragraph.clear();
    };
    for (std::string line; std::getline(lines, line);) {
        const bool is_heading = line.ends_with(':') && line.find(' ') == std::string::npos;
        if (line.empty() || line.front() == ' ' || is_heading) {
            end_paragraph();
            text += (is_heading ? "\n" : "") + line + "\n";
        } else {
            paragraph += (paragraph.empty() ? "" : " ") + line;
        }
    }
    end_paragraph();
    return text;
}

}  // namespace croupier::command_line
