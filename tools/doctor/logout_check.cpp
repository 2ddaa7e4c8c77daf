// systemd-logind removes an ordinary user's files below /dev/shm when he has logged out for the last time.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

// logind.conf(5): the first folder that has a file of some name wins, and later names overrule earlier ones
// and the main file.
constexpr const char* kFolders[] = {"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd",
                                    "/usr/lib/systemd"};
constexpr std::string_view kKey = "RemoveIPC=";

std::optional<std::string> last_value(const std::string& text) {
    std::optional<std::string> value;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(kKey)) value = line.substr(kKey.size());
    }
    return value;
}

bool logind_removes(const host::HostView& host) {
    std::optional<std::string> value;
    for (const char* folder : kFolders) {
        const auto main = host.read(fmt::format("{}/logind.conf", folder));
        if (!main) continue;
        value = last_value(*main);
        break;
    }
    std::vector<std::pair<std::string, std::string>> parts;  // by name, with the folder
    for (const char* folder : kFolders) {
        const std::string place = fmt::format("{}/logind.conf.d", folder);
        for (const std::string& name : host.list(place)) {
            const auto same = [&name](const auto& part) { return part.first == name; };
            if (name.ends_with(".conf") && std::none_of(parts.begin(), parts.end(), same))
                parts.emplace_back(name, place);
        }
    }
    std::sort(parts.begin(), parts.end());
    for (const auto& [name, place] : parts) {
        const auto own = last_value(host.read(fmt::format("{}/{}", place, name)).value_or(""));
        if (own) value = own;
    }
    // The default is yes; what is no word for no counts as it.
    const auto is = [&value](const char* word) { return value == word; };
    return !(is("no") || is("false") || is("off") || is("0") || is("n") || is("f"));
}

// As logind tells them: of others it removes nothing.
std::uint64_t first_ordinary_uid(const host::HostView& host) {
    std::istringstream lines(host.read("/etc/login.defs").value_or(""));
    std::string key;
    std::uint64_t value = 0;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        if (words >> key >> value && key == "UID_MIN") return value;
    }
    return 1000;
}

}  // namespace

Finding check_logout(const Examined& examined) {
    const std::string& folder = examined.config.shm.dir;
    const Account& user = examined.daemon_user;
    if (!folder.starts_with("/dev/shm/")) return fine("shm.dir is not below /dev/shm");
    if (user.uid < first_ordinary_uid(examined.host))
        return fine(fmt::format("{} is a system user: systemd-logind does not remove its files", user.name));
    // It makes both when it starts.
    if (examined.host.list("/run/systemd/seats").empty() && examined.host.list("/run/systemd/users").empty())
        return fine("systemd-logind does not run here");
    if (!logind_removes(examined.host)) return fine("systemd-logind has RemoveIPC=no");
    if (examined.host.read("/var/lib/systemd/linger/" + user.name))
        return fine(fmt::format("{} has lingering enabled: its files stay after a logout", user.name));
    return slower(
        fmt::format("systemd-logind removes {}'s files in {} at logout: engines that continue under tmux or "
                    "nohup lose their session when the daemon restarts",
                    user.name, folder),
        fmt::format(
            "run loginctl enable-linger {}, set RemoveIPC=no in /etc/systemd/logind.conf, or set shm.dir "
            "to another tmpfs",
            user.name),
        {{"user", user.name}, {"folder", folder}});
}

}  // namespace croupier::tools::doctor
