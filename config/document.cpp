#include "config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <sstream>
#include <utility>

#include "config/syntax_error.h"

namespace croupier::config {

namespace {

// yaml-cpp recurses a few frames a level; the schema is three levels deep.
constexpr std::size_t deepest_nesting = 32;

Place place_of(const YAML::Mark& mark) {
    return {mark.line + 1, mark.column + 1};
}

// Builds the tree from yaml-cpp's events. yaml-cpp's own Node would hide tags, anchors and the places of
// keys.
class TreeBuilder : public YAML::EventHandler {
  public:
    explicit TreeBuilder(const Lines& lines) : lines_(lines) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (++documents_ > 1) {
            throw YAML::ParserException(mark,
                                        "a second document begins here; a configuration is one document, and "
                                        "its outermost keys all begin in the first column");
        }
    }
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        check_plain(mark, "?", anchor);
        place(make(TreeNode::Kind::null, mark));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
        report(mark,
               "aliases (*name) are not accepted; write the value out, or quote a value that begins with *");
        place(make(TreeNode::Kind::null, mark));
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_plain(mark, tag, anchor);
        TreeNode node = make(TreeNode::Kind::scalar, mark);
        node.scalar = {.text = value, .quoted = tag == "!"};
        const std::string_view rest = rest_of_line(mark);
        if (node.scalar.quoted && !rest.empty() && is_quote(rest[0])) {
            // What a quote swallows up to the next one, keys among it, was meant for something else.
            if (!closes(rest)) {
                throw YAML::ParserException(mark,
                                            "a quote is opened here and not closed on this line; close it");
            }
        } else if (anchor == 0 && (tag == "?" || tag == "!")) {
            node.many_lines = node.scalar.quoted || value.size() > rest.size();
        }
        place(std::move(node));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value /*style*/) override {
        open(TreeNode::Kind::list, mark, tag, anchor);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value /*style*/) override {
        open(TreeNode::Kind::map, mark, tag, anchor);
    }
    void OnMapEnd() override { close(); }

    Place innermost_open() const { return open_.empty() ? Place{} : open_.back().node.at; }

    // After a syntax error the maps that are still open hold what was read before it. A last value that is
    // part of the wrong line is not judged.
    Document finish(std::optional<SyntaxProblem> error) {
        if (error && !open_.empty() && !open_.back().node.entries.empty()) {
            std::vector<Entry>& entries = open_.back().node.entries;
            const TreeNode& last = entries.back().value;
            if (last.many_lines || last.at.line >= error->at.line) entries.pop_back();
        }
        if (error) document_.problems.push_back(*std::move(error));
        while (!open_.empty()) close();
        return std::move(document_);
    }

  private:
    struct Open {
        TreeNode node;
        bool has_key = false;
        Entry entry;
    };

    static TreeNode make(TreeNode::Kind kind, const YAML::Mark& mark) {
        TreeNode node;
        node.kind = kind;
        node.at = place_of(mark);
        return node;
    }

    static bool is_quote(char c) { return c == '"' || c == '\''; }

    // Whether the line holds the end of the quoted text that it begins with.
    static bool closes(std::string_view line) {
        const char quote = line[0];
        for (std::size_t i = 1; i < line.size(); ++i) {
            if (quote == '"' && line[i] == '\\') {
                ++i;
            } else if (line[i] == quote) {
                const bool doubled = quote == '\'' && i + 1 < line.size() && line[i + 1] == quote;
                if (!doubled) return true;
                ++i;
            }
        }
        return false;
    }

    // Without the blanks at its end, which belong to no text.
    std::string_view rest_of_line(const YAML::Mark& mark) const {
        const auto line = static_cast<std::size_t>(mark.line);
        const auto column = static_cast<std::size_t>(mark.column);
        if (line >= lines_.size() || column >= lines_[line].size()) return {};
        const std::string_view rest = lines_[line].substr(column);
        return rest.substr(0, rest.find_last_not_of(" \t\r") + 1);
    }

    void report(const YAML::Mark& mark, std::string message) {
        document_.problems.push_back({place_of(mark), std::move(message)});
    }

    void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != 0)
            report(mark, "anchors (&name) are not accepted; write the value out where it is needed");
        const bool has_tag = !tag.empty() && tag != "?" && tag != "!";
        if (has_tag) report(mark, "tags (!name) are not accepted; quote a value that begins with !");
    }

    void open(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        check_plain(mark, tag, anchor);
        if (open_.size() == deepest_nesting) {
            throw YAML::ParserException(
                mark, "the file nests deeper than " + std::to_string(deepest_nesting) + " levels");
        }
        open_.push_back({.node = make(kind, mark), .has_key = false, .entry = {}});
    }

    void close() {
        TreeNode node = std::move(open_.back().node);
        open_.pop_back();
        place(std::move(node));
    }

    void place(TreeNode node) {
        if (open_.empty()) {
            document_.root = std::move(node);
            return;
        }
        Open& parent = open_.back();
        // No key takes a list, so what stands in one is never looked at.
        if (parent.node.kind == TreeNode::Kind::list) return;
        if (parent.has_key) {
            parent.entry.value = std::move(node);
            parent.node.entries.push_back(std::move(parent.entry));
            parent.has_key = false;
            return;
        }
        parent.entry = {.key = node.scalar.text, .at = node.at, .value = {}};
        parent.has_key = true;
    }

    const Lines& lines_;
    Document document_;
    std::vector<Open> open_;
    int documents_ = 0;
};

Lines split(std::string_view text) {
    Lines lines;
    std::size_t begin = 0;
    while (begin <= text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

// yaml-cpp takes the byte 0x04 for the end of the file, and would ignore all that follows.
std::optional<SyntaxProblem> find_control_character(const Lines& lines) {
    for (std::size_t line = 0; line < lines.size(); ++line) {
        for (std::size_t i = 0; i < lines[line].size(); ++i) {
            const auto byte = static_cast<unsigned char>(lines[line][i]);
            const bool line_end = byte == '\r' && i + 1 == lines[line].size() && line + 1 < lines.size();
            if (line_end || byte == '\t' || (byte >= 0x20 && byte != 0x7f)) continue;
            return SyntaxProblem{{static_cast<int>(line) + 1, static_cast<int>(i) + 1},
                                 "the byte " + std::to_string(byte) +
                                     " is a control character; the file has to be UTF-8 text"};
        }
    }
    return std::nullopt;
}

}  // namespace

Document parse_document(std::string_view text) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
    const Lines lines = split(text);
    TreeBuilder builder(lines);
    if (auto control = find_control_character(lines)) return builder.finish(std::move(control));
    std::istringstream stream{std::string(text)};
    try {
        YAML::Parser parser(stream);
        while (parser.HandleNextDocument(builder)) {
        }
    } catch (const YAML::Exception& error) {
        return builder.finish(explain(error, lines, builder.innermost_open()));
    }
    return builder.finish(std::nullopt);
}

}  // namespace croupier::config
