#include "config/load.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "config/conflicts.h"
#include "config/document.h"
#include "config/nearest.h"
#include "config/schema.h"
#include "config/texts.h"

namespace croupier::config {

namespace {

constexpr std::size_t largest_file = mib;
constexpr std::size_t longest_key = 64;
constexpr std::size_t longest_value = 4096;  // PATH_MAX: nothing here is longer than a path
constexpr std::size_t most_problems = 1000;

class Reader {
  public:
    Reader(std::string name, const Config& defaults) : name_(std::move(name)), config_(defaults) {}

    LoadResult read(std::string_view text) {
        Document document = parse_document(text);
        for (SyntaxProblem& problem : document.problems) {
            report(problem.at, "", std::move(problem.message));
        }
        if (document.root.kind == TreeNode::Kind::map) {
            read_section(document.root, "");
        } else if (document.root.kind != TreeNode::Kind::null) {
            report(document.root.at, "", "the file holds a list or a text; it has to hold keys with values");
        }
        // A line that could not be read may hold the very value that would settle a conflict.
        if (document.problems.empty()) report_conflicts();
        return finish();
    }

  private:
    void report(Place at, const std::string& key, std::string message) {
        if (problems_.size() < most_problems) {
            problems_.push_back({name_, at.line, at.column, key, std::move(message)});
        }
    }

    LoadResult finish() {
        if (problems_.empty()) {
            return {.config = std::move(config_),
                    .problems = {},
                    .file = std::move(name_),
                    .places = std::move(places_)};
        }
        std::stable_sort(problems_.begin(), problems_.end(),
                         [](const Problem& a, const Problem& b) { return a.line < b.line; });
        if (problems_.size() >= most_problems) {
            problems_.resize(most_problems);
            problems_.push_back(
                {name_, 0, 0, "",
                 "there are more mistakes than the " + std::to_string(most_problems) + " listed"});
        }
        return {.config = std::nullopt, .problems = std::move(problems_), .file = std::move(name_)};
    }

    void read_section(const TreeNode& node, const std::string& prefix) {
        for (const Entry& entry : node.entries) {
            if (problems_.size() >= most_problems) return;
            if (entry.key.empty() || entry.key.size() > longest_key) {
                report(entry.at, prefix,
                       entry.key.empty()
                           ? "a colon stands here without a key before it, or the key is not plain text"
                           : "a key has " + std::to_string(entry.key.size()) + " characters");
                continue;
            }
            const std::string path = joined(prefix, entry.key);
            const bool dotted = entry.key.find('.') != std::string::npos;
            const Key* const key = find_key(path);
            if (dotted || !is_known(path)) {
                report(entry.at, path, "is unknown" + suggest(entry.key, prefix, path));
                continue;
            }
            const auto [first, fresh] = places_.emplace(path, entry.at);
            if (!fresh) {
                fail(entry.at, path,
                     "is given twice; it stands in line " + std::to_string(first->second.line) + " already");
            } else if (key != nullptr) {
                read_value(*key, entry);
            } else {
                enter_section(entry, path);
            }
        }
    }

    void enter_section(const Entry& entry, const std::string& path) {
        const TreeNode& node = entry.value;
        // A section whose keys are all commented out is an empty one.
        if (node.kind == TreeNode::Kind::null) return;
        if (node.kind == TreeNode::Kind::map) return read_section(node, path);
        const std::string& text = node.scalar.text;
        const bool list = node.kind == TreeNode::Kind::list;
        const std::string found = list ? "a list" : "the value " + quoted(text.substr(0, longest_key));
        report(node.at, path,
               "is a section: it has to hold keys with values, indented below it, and not " + found +
                   (list || node.many_lines ? "" : suggest_colon(text, path)));
    }

    void read_value(const Key& key, const Entry& entry) {
        const TreeNode& node = entry.value;
        const std::string allowed = "; allowed: " + key.allowed;
        switch (node.kind) {
            case TreeNode::Kind::null:
                return fail(entry.at, key.path,
                            "has no value; give one, or leave the key out for its default" + allowed);
            case TreeNode::Kind::list:
                return fail(entry.at, key.path, "is a list; it has to be one value" + allowed);
            case TreeNode::Kind::map:
                return fail(entry.at, key.path, "is a section with keys; it has to be one value" + allowed);
            case TreeNode::Kind::scalar:
                break;
        }
        if (node.many_lines) {
            return fail(node.at, key.path,
                        "the value goes on in the next line; it has to end on its own, and a key there needs "
                        "its own indentation and a colon followed by a space" +
                            allowed);
        }
        if (node.scalar.text.size() > longest_value) {
            return fail(node.at, key.path,
                        "the value has " + std::to_string(node.scalar.text.size()) + " bytes" + allowed);
        }
        if (Wrong wrong = key.read(config_, node.scalar)) fail(node.at, key.path, *wrong + allowed);
    }

    void fail(Place at, const std::string& path, std::string message) {
        failed_.insert(path);
        report(at, path, std::move(message));
    }

    static std::string joined(const std::string& prefix, const std::string& name) {
        return prefix.empty() ? name : prefix + "." + name;
    }

    static bool is_known(const std::string& path) {
        return find_key(path) != nullptr || find_section(path) != nullptr;
    }

    // For a text that stands where a key should, and begins with one.
    static std::string suggest_colon(const std::string& text, const std::string& prefix) {
        const std::string meant = with_colon(text);
        const std::string key = meant.substr(0, meant.find(':'));
        const bool known = key.find('.') == std::string::npos && is_known(joined(prefix, key));
        return known ? "; write " + quoted(meant) : "";
    }

    static std::string suggest(const std::string& name, const std::string& prefix, const std::string& path) {
        if (find_key(path) != nullptr) {
            return "; indent the key below its section instead of writing a dot";
        }
        if (path == "samplers.state_mb") return "; write max_state_bytes with a unit, for example 512MiB";
        if (std::string meant = suggest_colon(name, prefix); !meant.empty()) return meant;
        std::vector<std::string> beside;
        std::vector<std::string> elsewhere;
        const auto collect = [&](const std::string& known) {
            const std::size_t dot = known.rfind('.');
            const std::string section = dot == std::string::npos ? "" : known.substr(0, dot);
            const std::string leaf = known.substr(dot == std::string::npos ? 0 : dot + 1);
            if (section == prefix) beside.push_back(leaf);
            if (section != prefix && leaf == name) elsewhere.push_back(known);
        };
        for (const Key& key : keys()) collect(key.path);
        for (const Section& section : sections()) collect(section.path);
        if (!elsewhere.empty()) return "; did you mean " + elsewhere.front() + "?";
        if (const auto meant = nearest(name, beside)) {
            return "; did you mean " + joined(prefix, *meant) + "?";
        }
        std::string known;
        for (const std::string& leaf : beside) known += (known.empty() ? "" : ", ") + leaf;
        return "; known here: " + known;
    }

    void report_conflicts() {
        for (const Conflict& conflict : find_conflicts(config_)) {
            const auto unreadable = [&](const std::string& key) { return failed_.count(key) > 0; };
            if (std::any_of(conflict.keys.begin(), conflict.keys.end(), unreadable)) continue;
            // The key to blame may have its default; then the line is that of the other one.
            const auto in_file = std::find_if(conflict.keys.begin(), conflict.keys.end(),
                                              [&](const std::string& key) { return places_.count(key) > 0; });
            if (in_file == conflict.keys.end()) continue;
            report(places_.at(*in_file), conflict.keys.front(), conflict.message);
        }
    }

    std::string name_;
    Config config_;
    std::vector<Problem> problems_;
    std::map<std::string, Place> places_;  // of every key and section in the file
    std::set<std::string> failed_;         // keys whose value is not in config_
};

LoadResult failure(const std::string& name, std::string message) {
    return {.config = std::nullopt, .problems = {{name, 0, 0, "", std::move(message)}}, .file = name};
}

std::string open_error(int error) {
    if (error == ENOENT) {
        return "the file does not exist; without --config croupierd starts with built-in defaults, which "
               "`croupierd --print-config` prints";
    }
    if (error == EACCES) return "no permission to read the file, or to enter a directory above it";
    return std::string("the file cannot be opened: ") + std::strerror(error);
}

std::string too_large() {
    return "the file is larger than " + std::to_string(largest_file) +
           " bytes, the most that a configuration may have";
}

}  // namespace

std::string to_string(const Problem& problem) {
    std::string text = problem.file + ":";
    if (problem.line > 0) text += std::to_string(problem.line) + ":";
    if (problem.column > 0) text += std::to_string(problem.column) + ":";
    if (!problem.key.empty()) text += " " + problem.key + ":";
    return text + " " + problem.message;
}

Problem LoadResult::problem(const std::string& key, std::string message) const {
    const auto found = places.find(key);
    const Place at = found == places.end() ? Place() : found->second;
    return {origin(), at.line, at.column, key, std::move(message)};
}

LoadResult load(const std::string& named, const proto::DefaultPaths& paths) {
    const Config defaults = default_config(paths);
    if (!named.empty()) return load_file(named, defaults);
    struct stat status {};
    const bool is_there = ::stat(kHostFile, &status) == 0 || errno != ENOENT;
    if (paths.is_host && is_there) return load_file(kHostFile, defaults);
    return {.config = defaults, .problems = {}, .file = ""};
}

LoadResult load_text(std::string_view text, const std::string& name, const Config& defaults) {
    if (text.size() > largest_file) return failure(name, too_large());
    try {
        return Reader(name, defaults).read(text);
    } catch (const std::exception& error) {
        return failure(name, std::string("the file cannot be read: ") + error.what());
    }
}

LoadResult load_file(const std::string& path, const Config& defaults) {
    struct stat status {};
    // Before it is opened: to open a pipe is to wait for its writer.
    if (::stat(path.c_str(), &status) != 0) return failure(path, open_error(errno));
    if (S_ISDIR(status.st_mode)) return failure(path, "this is a directory; name the file in it");
    if (!S_ISREG(status.st_mode)) return failure(path, "this is not a regular file");
    std::ifstream file(path, std::ios::binary);
    if (!file) return failure(path, open_error(errno));
    std::string text(largest_file + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) return failure(path, std::string("the file cannot be read: ") + std::strerror(errno));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return load_text(text, path, defaults);
}

}  // namespace croupier::config
