// The simulated engine's scheduler: continuous batching over a few microbatches in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "croupier/client.hpp"
#include "shm/segment.h"
#include "sim/world.h"

namespace croupier::sim {

// Runs in a process of its own, which may be killed at any instruction: the next one opens the session again,
// takes what is in flight, delivers from the sequences' logs what the ledger lacks, and goes on.
class Scheduler {
  public:
    explicit Scheduler(World& world);

    // Until every request has ended. Throws std::exception with a text for the user.
    void run();

  private:
    struct Microbatch {
        std::vector<std::uint32_t> requests;
        std::optional<std::uint64_t> step;  // in flight
        std::uint64_t submitted_ns = 0;
    };

    void recover();
    void take_over_steps_in_flight();
    void take_over_sequences(std::vector<bool>& live);
    void deliver_from_log(const Request& request);
    void admit(const Request& request);
    void fill(Microbatch& batch);
    bool submit(Microbatch& batch);
    bool anything_in_flight() const;
    std::uint32_t milliseconds_to_next_arrival() const;
    void await_step();
    void deliver(const croupier_decision& decision);
    void retire_ended(Microbatch& batch);
    void note_latency(const Microbatch& batch, const client::Step& step);

    World& world_;
    Ledger& ledger_;
    client::Session session_;
    std::unique_ptr<shm::Segment> segment_;  // read only, for the time stamps of decisions
    std::deque<std::uint32_t> waiting_;      // requests neither ended nor in the session, in their order
    std::deque<std::uint32_t> orphans_;  // live in the session, in no microbatch since the scheduler's death
    std::vector<Microbatch> batches_;
};

}  // namespace croupier::sim
