// A second user of this host, for tests: a process whose uid owns nothing here and that is in no group.
#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <utility>

#include "testing/child_process.h"

namespace croupier::shm {

constexpr uid_t kNobody = 65534;
constexpr uid_t kThirdUser = 65533;

inline bool can_change_user() {
    if (::geteuid() == 0) return true;
    WARN("skipped: only root can become a second user");
    return false;
}

// Whether a child that was forked beside other threads may start threads: under ThreadSanitizer one that gets
// the id of one of its parent's ends ("dup thread").
inline bool child_can_start_threads() {
#if defined(__SANITIZE_THREAD__)
    WARN("skipped: ThreadSanitizer does not know the threads of a forked child");
    return false;
#else
    return true;
#endif
}

// `body` runs as that user and returns its exit code; 127: it could not become that user.
template <typename Body>
testing::ChildProcess start_as(uid_t user, Body&& body) {
    return testing::ChildProcess::start([user, body = std::forward<Body>(body)]() mutable {
        if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(user) != 0) return 127;
        // Becoming another user forgets it.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        return static_cast<int>(body());
    });
}

template <typename Body>
testing::ChildProcess start_as_nobody(Body&& body) {
    return start_as(kNobody, std::forward<Body>(body));
}

template <typename Body>
int as_nobody(Body&& body) {
    return start_as_nobody(std::forward<Body>(body)).wait();
}

}  // namespace croupier::shm
