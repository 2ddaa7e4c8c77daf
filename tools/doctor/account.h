// A user of the host and what its permissions let it do, by the rules of the kernel: who asks may be another.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace croupier::tools::doctor {

struct Account {
    std::string name;  // or the uid, where it has none
    uid_t uid = 0;
    std::vector<gid_t> groups;  // its own first

    bool is_in(gid_t group) const;
};

// By name or number; nothing: there is no such user.
std::optional<Account> account_of(const std::string& user);
Account own_account();
std::string group_name(gid_t group);

constexpr unsigned kMayRead = 4;
constexpr unsigned kMayWrite = 2;
constexpr unsigned kMayEnter = 1;
bool may(const Account& account, const struct stat& status, unsigned access);

// The first folder on the way to `path` that the account may not enter; empty: it may enter all of those that
// are there.
std::string closed_folder_before(const Account& account, const std::string& path);

}  // namespace croupier::tools::doctor
