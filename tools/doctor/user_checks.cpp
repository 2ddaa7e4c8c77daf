// Who may do what: the daemon's user and shm.group, the engine's user and the socket.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include "shm/file.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/remedies.h"

namespace croupier::tools::doctor {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kNoGroup = "the daemon's own";

std::string path_of(const std::string& endpoint) {
    return endpoint.starts_with(kIpc) && !endpoint.starts_with("ipc://@") ? endpoint.substr(kIpc.size()) : "";
}

// As the socket will be, where there is none yet.
struct stat socket_to_come(const Examined& examined) {
    struct stat status {};
    status.st_uid = examined.daemon_user.uid;
    status.st_mode = S_IFSOCK | examined.config.control.ipc_mode;
    status.st_gid = examined.daemon_user.groups.empty() ? 0 : examined.daemon_user.groups.front();
    const std::string& group = examined.config.shm.group;
    if (group.empty()) return status;
    if (const auto gid = shm::group_id(group)) status.st_gid = gid.value();
    return status;
}

}  // namespace

Finding check_daemon_user(const Examined& examined) {
    const Account& user = examined.daemon_user;
    const std::string& group = examined.config.shm.group;
    const std::vector<Fact> facts = {{"user", user.name},
                                     {"uid", static_cast<std::int64_t>(user.uid)},
                                     {"shm_group", group.empty() ? std::string(kNoGroup) : group}};
    if (group.empty())
        return fine(fmt::format("the daemon's user is {}; segments belong to its group", user.name), facts);
    const auto gid = shm::group_id(group);
    if (!gid) {
        return broken(fmt::format("wrong group: shm.group is {}, and this host has no such group", group),
                      fmt::format("groupadd {}, or set another shm.group", group), facts);
    }
    const std::string joined = how_to_join(gid.value(), user, examined);
    if (user.uid != 0 && !user.is_in(gid.value())) {
        return broken(
            fmt::format(
                "wrong group: {} is not a member of shm.group {}: the daemon cannot give segments to it",
                user.name, group),
            joined.empty()
                ? "set shm.group to a group made for engines (groupadd --system engines), not to one that "
                  "grants more, such as " +
                      group_name(gid.value())
                : joined + ", then restart the daemon",
            facts);
    }
    return fine(fmt::format("the daemon's user {} is a member of shm.group {}", user.name, group), facts);
}

Finding check_engine_user(const Examined& examined) {
    const Account& user = examined.engine_user;
    const std::string path = path_of(examined.config.control.endpoint);
    const std::vector<Fact> facts = {{"user", user.name}, {"uid", static_cast<std::int64_t>(user.uid)}};
    if (path.empty()) return skipped("control.endpoint is not a file: CURVE keys decide who may connect");
    if (user.uid == 0) {
        return skipped("root may connect; engines often run as another user",
                       "check that user with --engine-user NAME");
    }
    struct stat status {};
    const bool there = ::stat(path.c_str(), &status) == 0;
    if (!there) status = socket_to_come(examined);
    const std::string group = group_name(status.st_gid);
    const std::string joined = how_to_join(status.st_gid, user, examined);
    const std::string remedy = joined.empty() ? how_to_be_served(user) : joined + ", then restart the engine";
    // The unit's run_dir is closed to others, as its socket is.
    if (const std::string closed = closed_folder_before(user, path); !closed.empty()) {
        return broken(fmt::format("no permission: {} may not enter {}, which holds the control socket",
                                  user.name, closed),
                      remedy, facts);
    }
    if (!may(user, status, kMayRead | kMayWrite)) {
        return broken(
            fmt::format(
                "no permission: {} is not in group {}, to which the control socket {} is limited (mode "
                "{:04o})",
                user.name, group, path, static_cast<unsigned>(status.st_mode) & 07777U),
            remedy, facts);
    }
    return fine(fmt::format("{} may connect to {}{}", user.name, path, there ? "" : " once the daemon runs"),
                facts);
}

}  // namespace croupier::tools::doctor
