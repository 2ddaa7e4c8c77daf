// One request for an explanation, from its session's name to the decision that a sampler left.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/observation/explain_query.h"
#include "proto/capture.h"
#include "shm/capture_exchange.h"
#include "shm/error.h"
#include "shm/segment.h"

namespace croupier::daemon {

struct Captured {
    proto::CapturedHead head;
    std::vector<std::byte> bytes;
    std::string session;
};

class ExplainRequests {
  public:
    using Clock = std::chrono::steady_clock;

    static shm::Result<ExplainRequests> create(const std::string& directory, const std::string& instance);

    // The sequence's next decision. `is_given_up` is asked again and again: nobody waits any more. Fails with
    // not_found, timed_out, daemon_gone when it was given up, or what kept the samplers from leaving one.
    shm::Result<Captured> capture(const ExplainQuery& query, Clock::time_point deadline,
                                  const std::function<bool()>& is_given_up);

  private:
    ExplainRequests(shm::CaptureExchange queue, std::string directory, std::string instance)
        : queue_(std::move(queue)), directory_(std::move(directory)), instance_(std::move(instance)) {}

    shm::Result<Captured> await(const shm::Segment& segment, const ExplainQuery& query, std::uint64_t number,
                                Clock::time_point deadline, const std::function<bool()>& is_given_up);
    // Nothing: what lies there is of another request, or nothing does.
    shm::Result<std::optional<Captured>> taken(std::uint64_t number) const;

    shm::CaptureExchange queue_;
    std::string directory_;
    std::string instance_;
    std::uint64_t number_ = 0;
};

}  // namespace croupier::daemon
