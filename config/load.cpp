#include "config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
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
    explicit Reader(std::string name) : name_(std::move(name)) {}

    LoadResult read(std::string_view text) {
        Document document = parse_document(text);
        for (SyntaxProblem& problem : document.problems) {
            problems_.push_back({name_, problem.line, problem.column, "", std::move(problem.message)});
        }
        if (document.root.kind == TreeNode::Kind::map) {
            read_section(document.root, "");
        } else if (document.root.kind != TreeNode::Kind::null) {
            report(document.root.line, "",
                   "the file holds a list or a text; it has to hold keys with values");
        }
        // A line that could not be read may hold the very value that would settle a conflict.
        if (document.problems.empty()) report_conflicts();
        return finish();
    }

  private:
    void report(int line, const std::string& key, std::string message) {
        if (problems_.size() < most_problems) problems_.push_back({name_, line, 0, key, std::move(message)});
    }

    LoadResult finish() {
        if (problems_.empty()) return {.config = std::move(config_), .problems = {}};
        std::stable_sort(problems_.begin(), problems_.end(),
                         [](const Problem& a, const Problem& b) { return a.line < b.line; });
        if (problems_.size() >= most_problems) {
            problems_.resize(most_problems);
            problems_.push_back(
                {name_, 0, 0, "",
                 "there are more mistakes than the " + std::to_string(most_problems) + " listed"});
        }
        return {.config = std::nullopt, .problems = std::move(problems_)};
    }

    void read_section(const TreeNode& node, const std::string& prefix) {
        for (const Entry& entry : node.entries) {
            if (problems_.size() >= most_problems) return;
            if (entry.key.empty() || entry.key.size() > longest_key) {
                report(entry.line, prefix,
                       entry.key.empty()
                           ? "a colon stands here without a key before it, or the key is not plain text"
                           : "a key has " + std::to_string(entry.key.size()) + " characters");
                continue;
            }
            const std::string path = prefix.empty() ? entry.key : prefix + "." + entry.key;
            const bool dotted = entry.key.find('.') != std::string::npos;
            const Key* const key = find_key(path);
            if (dotted || (key == nullptr && find_section(path) == nullptr)) {
                report(entry.line, path, "is unknown" + suggest(entry.key, prefix, path));
                continue;
            }
            const auto [first, fresh] = lines_.emplace(path, entry.line);
            if (!fresh) {
                fail(entry.line, path,
                     "is given twice; it stands in line " + std::to_string(first->second) + " already");
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
        const std::string found = node.kind == TreeNode::Kind::list
                                      ? "a list"
                                      : "the value " + quoted(node.scalar.text.substr(0, longest_key));
        report(node.line, path,
               "is a section: it has to hold keys with values, indented below it, and not " + found);
    }

    void read_value(const Key& key, const Entry& entry) {
        const TreeNode& node = entry.value;
        const std::string allowed = "; allowed: " + key.allowed;
        switch (node.kind) {
            case TreeNode::Kind::null:
                return fail(entry.line, key.path,
                            "has no value; give one, or leave the key out for its default" + allowed);
            case TreeNode::Kind::list:
                return fail(entry.line, key.path, "is a list; it has to be one value" + allowed);
            case TreeNode::Kind::map:
                return fail(entry.line, key.path, "is a section with keys; it has to be one value" + allowed);
            case TreeNode::Kind::scalar:
                break;
        }
        if (node.scalar.text.size() > longest_value) {
            return fail(entry.line, key.path,
                        "the value has " + std::to_string(node.scalar.text.size()) + " bytes" + allowed);
        }
        if (Wrong wrong = key.read(config_, node.scalar)) fail(entry.line, key.path, *wrong + allowed);
    }

    void fail(int line, const std::string& path, std::string message) {
        failed_.insert(path);
        report(line, path, std::move(message));
    }

    static std::string suggest(const std::string& name, const std::string& prefix, const std::string& path) {
        if (find_key(path) != nullptr) {
            return "; indent the key below its section instead of writing a dot";
        }
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
            return "; did you mean " + (prefix.empty() ? *meant : prefix + "." + *meant) + "?";
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
                                              [&](const std::string& key) { return lines_.count(key) > 0; });
            if (in_file == conflict.keys.end()) continue;
            report(lines_.at(*in_file), conflict.keys.front(), conflict.message);
        }
    }

    std::string name_;
    Config config_;
    std::vector<Problem> problems_;
    std::map<std::string, int> lines_;  // of every key and section in the file
    std::set<std::string> failed_;      // keys whose value is not in config_
};

LoadResult failure(const std::string& name, std::string message) {
    return {.config = std::nullopt, .problems = {{name, 0, 0, "", std::move(message)}}};
}

class FileDescriptor {
  public:
    explicit FileDescriptor(const std::string& path)
        : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~FileDescriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

std::string open_error(int error) {
    if (error == ENOENT) return "the file does not exist";
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

LoadResult load_text(std::string_view text, const std::string& name) {
    if (text.size() > largest_file) return failure(name, too_large());
    try {
        return Reader(name).read(text);
    } catch (const std::exception& error) {
        return failure(name, std::string("the file cannot be read: ") + error.what());
    }
}

LoadResult load_file(const std::string& path) {
    const FileDescriptor file(path);
    if (file.get() < 0) return failure(path, open_error(errno));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return failure(path, open_error(errno));
    if (S_ISDIR(status.st_mode)) return failure(path, "this is a directory; name the file in it");
    if (!S_ISREG(status.st_mode)) return failure(path, "this is not a regular file");
    std::string text(largest_file + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failure(path, std::string("the file cannot be read: ") + std::strerror(errno));
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    return load_text(std::string_view(text).substr(0, size), path);
}

}  // namespace croupier::config
