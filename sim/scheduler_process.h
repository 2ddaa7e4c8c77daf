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
    struct StepInFlight {
        std::uint64_t step = 0;
        std::vector<std::uint32_t> requests;  // by column
        std::uint64_t submitted_ns = 0;
    };
    struct Microbatch {
        std::vector<std::uint32_t> requests;
        std::deque<StepInFlight> steps;
    };
    // How a request stands in the session.
    struct Place {
        std::uint32_t next = 0;        // the position that is submitted next
        std::uint64_t void_below = 0;  // its columns in earlier steps bring no token
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
    void deliver_step(const client::Step& step, const StepInFlight& sent);
    // A column that brings no token must have been made void.
    void check_void(const croupier_decision& decision, std::uint64_t step) const;
    void deliver(const croupier_decision& decision);
    void truncate_some(const StepInFlight& sent);
    void retire_ended(Microbatch& batch);
    void note_latency(const StepInFlight& sent, const client::Step& step);

    World& world_;
    Ledger& ledger_;
    client::Session session_;
    std::unique_ptr<shm::Segment> segment_;  // read only, for the time stamps of decisions
    std::deque<std::uint32_t> waiting_;      // requests neither ended nor in the session, in their order
    std::deque<std::uint32_t> orphans_;  // live in the session, in no microbatch since the scheduler's death
    std::vector<Microbatch> batches_;
    std::vector<Place> places_;      // by request
    std::uint64_t next_step_ = 0;    // that is submitted
    std::uint64_t truncations_ = 0;  // looks at whether to truncate
};

}  // namespace croupier::sim
