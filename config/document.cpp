#include "config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <utility>

namespace croupier::config {

namespace {

// yaml-cpp recurses a few frames a level; the schema is three levels deep.
constexpr std::size_t deepest_nesting = 32;

// Builds the tree from yaml-cpp's events. yaml-cpp's own Node would hide tags, anchors and the lines of keys.
class TreeBuilder : public YAML::EventHandler {
  public:
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

    // After a syntax error the maps that are still open hold what was read before it. A last text with a
    // space in it may have swallowed the start of the wrong line, so it is not judged.
    Document finish() {
        if (!open_.empty() && !open_.back().node.entries.empty()) {
            std::vector<Entry>& entries = open_.back().node.entries;
            const Scalar& last = entries.back().value.scalar;
            if (!last.quoted && last.text.find(' ') != std::string::npos) entries.pop_back();
        }
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
        node.line = mark.line + 1;
        return node;
    }

    void report(const YAML::Mark& mark, std::string message) {
        document_.problems.push_back({mark.line + 1, mark.column + 1, std::move(message)});
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
        parent.entry = {.key = node.scalar.text, .line = node.line, .value = {}};
        parent.has_key = true;
    }

    Document document_;
    std::vector<Open> open_;
    int documents_ = 0;
};

// yaml-cpp's messages speak of its grammar; these say what a person most likely did.
std::string explain(const std::string& message) {
    struct Cause {
        std::string_view message;
        std::string_view meaning;
    };
    static const std::array<Cause, 4> causes{{
        {YAML::ErrorMsg::MAP_VALUE,
         "a second colon stands where a value should be: indent the line like the keys beside it, and quote "
         "a "
         "value that contains \": \""},
        {YAML::ErrorMsg::END_OF_MAP,
         "the line is indented unlike the keys beside it, or text follows a closing quote"},
        {YAML::ErrorMsg::UNKNOWN_TOKEN, "a value cannot begin with this character; put it in quotes"},
        {YAML::ErrorMsg::UNKNOWN_ANCHOR,
         "aliases (*name) are not accepted; quote a value that begins with *"},
    }};
    const auto* const cause =
        std::find_if(causes.begin(), causes.end(), [&](const Cause& c) { return c.message == message; });
    return cause == causes.end() ? message : std::string(cause->meaning);
}

}  // namespace

Document parse_document(std::string_view text) {
    LintResult lint = lint_lines(text);
    TreeBuilder builder;
    std::vector<SyntaxProblem> problems = std::move(lint.problems);
    if (lint.readable) {
        std::istringstream stream(lint.repaired);
        try {
            YAML::Parser parser(stream);
            while (parser.HandleNextDocument(builder)) {
            }
        } catch (const YAML::Exception& error) {
            // What the lint found is the likelier cause, and its place is the right one.
            if (problems.empty()) {
                problems.push_back({error.mark.line + 1, error.mark.column + 1, explain(error.msg)});
            }
        }
    }
    Document document = builder.finish();
    document.problems.insert(document.problems.end(), problems.begin(), problems.end());
    return document;
}

}  // namespace croupier::config
