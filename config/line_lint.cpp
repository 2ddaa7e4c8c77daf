#include "config/line_lint.h"

#include <cctype>
#include <cstddef>

#include "config/texts.h"

namespace croupier::config {

namespace {

// yaml-cpp keeps a token for each bracket of a line before it hands out the first, so their number is
// bounded here; no configuration comes near.
constexpr int most_brackets = 256;

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}
bool is_key_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// Where the brackets of flow style ([ ] and { }) stand; they may span lines.
struct Flow {
    int depth = 0;
    int opened_at = 0;  // the line of the outermost bracket that is open
    int brackets = 0;
};

struct LineFacts {
    bool has_colon = false;
    bool is_item = false;  // begins with "- "
    std::size_t open_quote = std::string_view::npos;
};

// The position after a quoted text that begins at `from`, or npos when the line ends first.
std::size_t skip_quoted(std::string_view line, std::size_t from) {
    const char quote = line[from];
    for (std::size_t i = from + 1; i < line.size(); ++i) {
        if (quote == '"' && line[i] == '\\') {
            ++i;
        } else if (line[i] == quote) {
            const bool doubled = quote == '\'' && i + 1 < line.size() && line[i + 1] == quote;
            if (!doubled) return i + 1;
            ++i;
        }
    }
    return std::string_view::npos;
}

// Brackets and quotes mean something only where a value may begin: tcp://[::1]:5555 and don't are plain text.
LineFacts scan_line(std::string_view line, int number, Flow& flow) {
    LineFacts facts;
    bool value_may_begin = true;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        const bool blank_follows = i + 1 == line.size() || is_blank(line[i + 1]);
        if (is_blank(c)) continue;
        if (c == '#' && (i == 0 || is_blank(line[i - 1]))) break;
        if (value_may_begin && (c == '"' || c == '\'')) {
            const std::size_t end = skip_quoted(line, i);
            if (end == std::string_view::npos) {
                facts.open_quote = i;
                break;
            }
            i = end - 1;
            value_may_begin = false;
        } else if ((value_may_begin || flow.depth > 0) && (c == '[' || c == '{')) {
            if (flow.depth++ == 0) flow.opened_at = number;
            ++flow.brackets;
            value_may_begin = true;
        } else if (flow.depth > 0 && (c == ']' || c == '}')) {
            --flow.depth;
            value_may_begin = false;
        } else if (c == ':' && blank_follows) {
            facts.has_colon = true;
            value_may_begin = true;
        } else if (value_may_begin && c == '-' && blank_follows) {
            facts.is_item = true;
        } else {
            value_may_begin = flow.depth > 0 && c == ',';
        }
    }
    return facts;
}

std::string_view trimmed(std::string_view line) {
    const std::size_t comment = line.find(" #");
    line = line.substr(0, comment);
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    return line;
}

class Linter {
  public:
    explicit Linter(std::string_view text) : text_(text) {}

    LintResult run() {
        if (!check_characters()) return std::move(result_);
        std::size_t begin = 0;
        for (int number = 1; begin <= text_.size() && result_.readable; ++number) {
            const std::size_t end = std::min(text_.find('\n', begin), text_.size());
            lint(text_.substr(begin, end - begin), number);
            result_.repaired += '\n';
            begin = end + 1;
        }
        if (flow_.depth > 0 && result_.readable)
            report(flow_.opened_at, 0, "a bracket, [ or {, is opened here and never closed");
        return std::move(result_);
    }

  private:
    void report(int line, int column, std::string message) {
        result_.problems.push_back({line, column, std::move(message)});
    }

    // yaml-cpp takes the byte 0x04 for the end of the file, and would ignore all that follows.
    bool check_characters() {
        int line = 1;
        for (std::size_t i = 0; i < text_.size(); ++i) {
            const char c = text_[i];
            const bool line_end = c == '\n' || (c == '\r' && i + 1 < text_.size() && text_[i + 1] == '\n');
            if (c == '\n') ++line;
            const auto byte = static_cast<unsigned char>(c);
            if (line_end || c == '\t' || (byte >= 0x20 && byte != 0x7f)) continue;
            report(line, 0,
                   "the byte " + std::to_string(byte) +
                       " is a control character; the file has to be UTF-8 text");
            result_.readable = false;
            return false;
        }
        return true;
    }

    void lint(std::string_view line, int number) {
        const std::size_t indent = line.find_first_not_of(" \t\r");
        if (indent == std::string_view::npos || line[indent] == '#') return;
        const std::size_t tab = line.substr(0, indent).find('\t');
        const bool inside_flow = flow_.depth > 0;
        const LineFacts facts = scan_line(line, number, flow_);
        if (flow_.brackets > most_brackets) {
            report(number, 0, "there are more than " + std::to_string(most_brackets) + " brackets, [ or {");
            result_.readable = false;
        } else if (facts.open_quote != std::string_view::npos) {
            report(number, static_cast<int>(facts.open_quote) + 1,
                   "a quote is opened here and not closed on this line; close it");
        } else if (tab != std::string_view::npos) {
            report(number, static_cast<int>(tab) + 1, "the line is indented with a tab; indent with spaces");
        } else if (!facts.has_colon && !facts.is_item && !inside_flow && !is_marker(line)) {
            repair_colon(line.substr(0, indent), trimmed(line), number);
        } else {
            result_.repaired += line;
        }
    }

    static bool is_marker(std::string_view line) {
        return line[0] == '%' || line[0] == '[' || line[0] == '{' || line.substr(0, 3) == "---" ||
               line.substr(0, 3) == "...";
    }

    // "count 4", "count:4", "count = 4" and "samplers" all lack the colon that makes a key.
    void repair_colon(std::string_view indent, std::string_view content, int number) {
        std::size_t key = 0;
        while (key < content.size() && is_key_char(content[key])) ++key;
        const std::size_t value = content.find_first_not_of(" \t:=", key);
        std::string meant(content.substr(0, key));
        meant += ":";
        if (value != std::string_view::npos) meant.append(" ").append(content.substr(value));
        if (key == 0) {
            report(number, 0, quoted(content) + " is not a key with a value; write \"key: value\"");
            return;
        }
        report(number, 0,
               quoted(content) + " lacks a colon followed by a space after the key; write " + quoted(meant));
        result_.repaired += std::string(indent) + meant;
    }

    std::string_view text_;
    LintResult result_;
    Flow flow_;
};

}  // namespace

LintResult lint_lines(std::string_view text) {
    return Linter(text).run();
}

}  // namespace croupier::config
