#include "host/host_view.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace croupier::host {
namespace {

constexpr const char* kWhite = " \t\r\n";

std::optional<std::string> text_of(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (file.bad()) return std::nullopt;
    text.erase(text.find_last_not_of(kWhite) + 1);
    return text;
}

}  // namespace

std::optional<std::string> HostView::read(const std::string& absolute) const {
    return text_of(path(absolute));
}

std::optional<std::string> HostView::read_of_process(const std::string& name) const {
    return text_of(of_process(name));
}

std::vector<std::string> HostView::list(const std::string& absolute) const {
    std::vector<std::string> names;
    std::error_code failure;
    for (std::filesystem::directory_iterator entry(path(absolute), failure), end; !failure && entry != end;
         entry.increment(failure)) {
        names.push_back(entry->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<std::string> field_of(const std::string& lines, const std::string& name) {
    std::istringstream all(lines);
    for (std::string line; std::getline(all, line);) {
        if (!line.starts_with(name + ":")) continue;
        const auto begin = line.find_first_not_of(kWhite, name.size() + 1);
        return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return std::nullopt;
}

bool is_stopped(const HostView& view) {
    const std::string state = field_of(view.read_of_process("status").value_or(""), "State").value_or("");
    // 'T': by a signal; 't': by a debugger.
    return state.starts_with("T") || state.starts_with("t");
}

}  // namespace croupier::host
