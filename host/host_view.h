// A host as files: what /proc and /sys say, of the real root folder or of a copy of them, for this process or
// for another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace croupier::host {

struct HostView {
    std::string root;              // before every path; empty: the real host
    std::string process = "self";  // whose cores and control groups count: a pid, or "self"

    bool is_real() const { return root.empty(); }
    bool is_this_process() const { return is_real() && process == "self"; }
    std::string path(const std::string& absolute) const { return root + absolute; }
    // Of the process: "status" is /proc/<process>/status.
    std::string of_process(const std::string& name) const { return path("/proc/" + process + "/" + name); }

    // Without the white space at its end; nothing where it cannot be read.
    std::optional<std::string> read(const std::string& absolute) const;
    std::optional<std::string> read_of_process(const std::string& name) const;
    // The names in a folder, in order; empty where there is none.
    std::vector<std::string> list(const std::string& absolute) const;
};

// Behind "Name:" in a file of lines such as /proc/<pid>/status.
std::optional<std::string> field_of(const std::string& lines, const std::string& name);

// Of the view's process: by a signal or a debugger, and not yet continued.
bool is_stopped(const HostView& view);

}  // namespace croupier::host
