#include "host/mounts.h"

#include <sstream>

namespace croupier::host {
namespace {

// The kernel writes a space as \040.
std::string unescaped(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

bool is_below(const std::string& path, const std::string& folder) {
    if (folder == "/") return true;
    return path == folder || path.starts_with(folder + "/");
}

std::optional<Mount> mount_in(const std::string& line) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) return std::nullopt;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skipped;
    std::string own;
    std::string shared;
    Mount mount;
    before >> skipped >> skipped >> skipped >> skipped >> mount.point >> own;
    after >> mount.type >> skipped >> shared;
    mount.point = unescaped(mount.point);
    mount.options = own + "," + shared;
    return mount;
}

}  // namespace

bool Mount::has(const std::string& option) const {
    return ("," + options + ",").find("," + option + ",") != std::string::npos;
}

std::string Mount::value(const std::string& option) const {
    const std::string all = "," + options + ",";
    const auto at = all.find("," + option + "=");
    if (at == std::string::npos) return "";
    const auto begin = at + option.size() + 2;
    return all.substr(begin, all.find(',', begin) - begin);
}

bool Mount::is_in_memory() const {
    return type == "tmpfs" || type == "hugetlbfs" || type == "ramfs";
}

std::string Mount::huge() const {
    const std::string set = value("huge");
    return set.empty() ? "never" : set;
}

bool Mount::has_huge_pages() const {
    const std::string set = huge();
    return type == "hugetlbfs" || set == "advise" || set == "within_size" || set == "always";
}

std::optional<Mount> mount_of(const HostView& host, const std::string& path) {
    std::optional<Mount> best;
    // Of another user's process only root may see them; they are mostly the same.
    const auto own = host.read_of_process("mountinfo");
    std::istringstream lines(own ? *own : host.read("/proc/self/mountinfo").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const auto mount = mount_in(line);
        // Of two on one point the later one hides the other.
        if (mount && is_below(path, mount->point) && (!best || mount->point.size() >= best->point.size())) {
            best = mount;
        }
    }
    return best;
}

}  // namespace croupier::host
