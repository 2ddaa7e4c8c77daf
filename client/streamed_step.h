// Decided steps that arrive as messages, from the daemon over ZMQ or from the relay on another host.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/decision.h"
#include "proto/wire.h"
#include "shm/error.h"

namespace croupier::client {

struct StreamedStep {
    std::uint64_t step = 0;
    proto::DecisionError refused = proto::DecisionError::none;
    std::vector<proto::Decision> decisions;
    std::vector<proto::RankedLogprob> ranked;  // of all columns, one after the other
    std::vector<std::uint32_t> ranked_counts;  // of each column; empty: the session has no log-probs
    std::vector<proto::Survivor> survivors;    // likewise
    std::vector<std::uint32_t> survivor_counts;
    std::vector<std::uint32_t> survivor_totals;
};

StreamedStep read_step(const wire::StepDecisions& message);

class StepMessages {
  public:
    virtual ~StepMessages() = default;

    // The decided step that the client takes next, if its message comes within `timeout`.
    virtual shm::Result<std::optional<StreamedStep>> receive(std::chrono::milliseconds timeout) = 0;
};

}  // namespace croupier::client
