// Answers to Statistics: a snapshot maps every segment, so it is made beside the supervisor's loop, and one
// answers all who wait.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "shm/snapshot.h"

namespace croupier::daemon {

class StatisticsWorker {
  public:
    StatisticsWorker(std::string shm_directory, std::string instance, int event_fd)
        : shm_directory_(std::move(shm_directory)), instance_(std::move(instance)), event_fd_(event_fd) {}

    bool busy() const { return thread_.joinable(); }
    // Not while one is being made.
    void begin();
    // The snapshot, once it is made.
    std::optional<shm::Result<shm::Snapshot>> take();

  private:
    std::string shm_directory_;
    std::string instance_;
    int event_fd_;
    std::mutex mutex_;
    std::optional<shm::Result<shm::Snapshot>> made_;
    std::jthread thread_;
};

}  // namespace croupier::daemon
