#include "daemon/control/statistics_worker.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace croupier::daemon {

void StatisticsWorker::begin() {
    thread_ = std::jthread([this] {
        auto snapshot = shm::observe(shm_directory_, instance_);
        {
            const std::lock_guard lock(mutex_);
            made_.emplace(std::move(snapshot));
        }
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof(one));
    });
}

std::optional<shm::Result<shm::Snapshot>> StatisticsWorker::take() {
    std::optional<shm::Result<shm::Snapshot>> taken;
    {
        const std::lock_guard lock(mutex_);
        taken.swap(made_);
    }
    if (taken) thread_.join();
    return taken;
}

}  // namespace croupier::daemon
