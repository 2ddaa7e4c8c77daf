#include "tools/doctor/account.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace croupier::tools::doctor {
namespace {

constexpr std::size_t kEntryBytes = 16384;

std::vector<gid_t> groups_of(const std::string& user, gid_t own) {
    int count = 64;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    while (::getgrouplist(user.c_str(), own, groups.data(), &count) < 0) {
        groups.resize(static_cast<std::size_t>(count));
    }
    groups.resize(static_cast<std::size_t>(count));
    return groups;
}

Account account_from(const passwd& entry) {
    return {entry.pw_name, entry.pw_uid, groups_of(entry.pw_name, entry.pw_gid)};
}

std::optional<Account> account_of(uid_t uid) {
    std::array<char, kEntryBytes> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) return std::nullopt;
    return account_from(entry);
}

}  // namespace

bool Account::is_in(gid_t group) const {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
}

std::optional<Account> account_of(const std::string& user) {
    std::array<char, kEntryBytes> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr) return account_from(entry);
    uid_t uid = 0;
    const auto end = std::from_chars(user.data(), user.data() + user.size(), uid);
    if (end.ec != std::errc() || end.ptr != user.data() + user.size()) return std::nullopt;
    // A container may run as a number that no file names: it is in no group then.
    return account_of(uid).value_or(Account{user, uid, {}});
}

Account own_account() {
    // As the kernel has it, which may be other than what the files say.
    Account own{std::to_string(::geteuid()), ::geteuid(), {::getegid()}};
    if (const auto named = account_of(::geteuid())) own.name = named->name;
    std::vector<gid_t> more(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
    const int count = ::getgroups(static_cast<int>(more.size()), more.data());
    if (count > 0) own.groups.insert(own.groups.end(), more.begin(), more.begin() + count);
    return own;
}

std::string group_name(gid_t group) {
    std::array<char, kEntryBytes> buffer{};
    ::group entry{};
    ::group* found = nullptr;
    ::getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found);
    return found == nullptr ? std::to_string(group) : entry.gr_name;
}

bool may(const Account& account, const struct stat& status, unsigned access) {
    if (account.uid == 0) return true;
    const auto mode = static_cast<unsigned>(status.st_mode);
    // The first class that fits decides, though a later one may allow more.
    if (status.st_uid == account.uid) return ((mode >> 6U) & access) == access;
    if (account.is_in(status.st_gid)) return ((mode >> 3U) & access) == access;
    return (mode & access) == access;
}

std::string closed_folder_before(const Account& account, const std::string& path) {
    std::filesystem::path folder;
    for (const auto& part : std::filesystem::path(path).parent_path()) {
        folder /= part;
        struct stat status {};
        if (::stat(folder.c_str(), &status) != 0) return "";
        if (!may(account, status, kMayEnter)) return folder.string();
    }
    return "";
}

}  // namespace croupier::tools::doctor
