// Reads /proc and /sys of this host or of a copy of them, for this process or another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace croupier::host {

struct HostView {
    std::string root;              // prefix of every path; empty for the real host
    std::string process = "self";  // the process whose cores and control groups are read: a pid or "self"

    bool is_real() const { return root.empty(); }
    bool is_this_process() const { return is_real() && process == "self"; }
    std::string path(const std::string& absolute) const { return root + absolute; }
    // A file of the process: "status" is /proc/<process>/status.
    std::string of_process(const std::string& name) const { return path("/proc/" + process + "/" + name); }

    // Contents without trailing white space; nothing if the file cannot be read.
    std::optional<std::string> read(const std::string& absolute) const;
    std::optional<std::string> read_of_process(const std::string& name) const;
    // The sorted names in a folder; empty if there is no such folder.
    std::vector<std::string> list(const std::string& absolute) const;
};

// The value after "Name:" in a file such as /proc/<pid>/status.
std::optional<std::string> field_of(const std::string& lines, const std::string& name);

// Whether a signal or a debugger stopped the view's process.
bool is_stopped(const HostView& view);

}  // namespace croupier::host
