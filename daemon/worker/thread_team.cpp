#include "daemon/worker/thread_team.h"

#include <oneapi/tbb/parallel_for.h>

namespace croupier::daemon {

void ThreadTeam::run_unseen(void (*part)(void* work, std::size_t thread), void* work) {
    arena_.execute([&] {
        tbb::parallel_for(std::size_t{0}, std::size_t{count_},
                          [&](std::size_t thread) { part(work, thread); });
    });
}

}  // namespace croupier::daemon
