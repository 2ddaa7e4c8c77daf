#include "shm/home_process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace croupier::shm {
namespace {

struct Keeper {
    std::mutex mutex;
    std::vector<int> files;
    std::atomic<std::uint64_t> generation{0};  // forks since the first process
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

// Never destroyed: static objects of the program may close their files after it would be.
Keeper& keeper() {
    static Keeper* const made = [] {
        auto* keeper = new Keeper;
        ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        return keeper;
    }();
    return *made;
}

// Held over the fork: the child must not find the list half changed by a thread that it has not.
void before_fork() {
    keeper().mutex.lock();
}

void after_fork_in_parent() {
    keeper().mutex.unlock();
}

void after_fork_in_child() {
    Keeper& kept = keeper();
    for (const int fd : kept.files) ::close(fd);
    kept.files.clear();
    kept.generation.fetch_add(1, std::memory_order_relaxed);
    kept.mutex.unlock();
}

}  // namespace

void close_in_children(int fd) {
    Keeper& kept = keeper();
    const std::lock_guard lock(kept.mutex);
    kept.files.push_back(fd);
}

void leave_to_children(int fd) {
    Keeper& kept = keeper();
    const std::lock_guard lock(kept.mutex);
    const auto found = std::find(kept.files.begin(), kept.files.end(), fd);
    if (found != kept.files.end()) kept.files.erase(found);
}

HomeProcess::HomeProcess()
    : generation_(keeper().generation.load(std::memory_order_relaxed)), pid_(::getpid()) {}

bool HomeProcess::is_here() const {
    return generation_ == keeper().generation.load(std::memory_order_relaxed);
}

Result<bool> HomeProcess::check(const char* what) const {
    if (is_here()) return true;
    return fail(Errc::forked, std::string(what) + " is of process " + std::to_string(pid_) +
                                  ", of which this one, " + std::to_string(::getpid()) +
                                  ", is a forked child: a child makes its own");
}

}  // namespace croupier::shm
