// Which file system a path lies on, as the process sees it.
#pragma once

#include <optional>
#include <string>

#include "host/host_view.h"

namespace croupier::host {

struct Mount {
    std::string point;
    std::string type;
    std::string options;  // of the mount and of its file system, separated by commas

    bool has(const std::string& option) const;
    // Behind "size=": "8192k". Empty where the option is not there.
    std::string value(const std::string& option) const;
    bool is_in_memory() const;
    // Of its option huge=: "never" where it has none.
    std::string huge() const;
    bool has_huge_pages() const;
};

std::optional<Mount> mount_of(const HostView& host, const std::string& path);

}  // namespace croupier::host
