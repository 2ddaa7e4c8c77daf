// The simulated engine's scheduler: continuous batching with several microbatches in flight.
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

// Runs in its own process, which may be killed at any instruction. Its successor reopens the session, takes
// the steps in flight, delivers missing tokens from the sequences' logs, and continues.
class Scheduler {
  public:
    explicit Scheduler(World& world);

    // Returns when every request has ended. Throws std::exception with a message for the user.
    void run();

  private:
    struct StepInFlight {
        std::uint64_t step = 0;
        std::vector<std::uint32_t> requests;  // by column
        std::size_t rows = 0;                 // of all columns
        std::uint64_t submitted_ns = 0;
    };
    struct Microbatch {
        std::vector<std::uint32_t> requests;
        std::deque<StepInFlight> steps;
    };
    // Decisions of a request from perturbed rows are not delivered, but decided again.
    struct Replay {
        enum class State { none, due, in_flight } state = State::none;
        std::uint32_t from = 0;              // in flight: this position on
        std::vector<std::int32_t> cut = {};  // what stood there
    };
    // The state of a request in the session.
    struct Progress {
        std::uint32_t next = 0;        // the next position to submit, or fewer behind a window in flight
        std::uint64_t void_below = 0;  // its columns in steps before this one bring no token
        Replay replay = {};
    };

    void recover();
    void take_over_steps_in_flight();
    void take_over_sequences(std::vector<bool>& live);
    void take_over_decision(const croupier_decision& decision);
    // Delivers what the log has before position `end` and the ledger lacks.
    void deliver_from_log(const Request& request, std::uint32_t end);
    void admit(const Request& request);
    void fill(Microbatch& batch);
    bool submit(Microbatch& batch);
    croupier_column column_of(std::uint32_t request);
    std::uint32_t drafted_rows(const Request& request) const;
    // The rows of the request's next column, which goes back to what is delivered where a replay is due.
    std::uint32_t replayed_rows(std::uint32_t request);
    void note_perturbed(const croupier_decision& decision);
    void end_replay(std::uint32_t request);
    bool replays() const { return world_.options.replay > 0; }
    bool awaits_kills() const;
    void await_kill() const;
    void note_progress(const StepInFlight& sent);
    bool anything_in_flight() const;
    std::uint32_t milliseconds_to_next_arrival() const;
    void await_step();
    void deliver_step(const client::Step& step, const StepInFlight& sent);
    // Throws unless the column was void.
    void check_void(const croupier_decision& decision, std::uint64_t step) const;
    void deliver(const croupier_decision& decision);
    void note_text(const croupier_decision& decision, LedgerEntry& entry) const;
    // Throws if the decision belongs to no request.
    std::uint32_t request_of(const croupier_decision& decision) const;
    void truncate_some(const StepInFlight& sent);
    void retire_ended(Microbatch& batch);
    void note_latency(const StepInFlight& sent, const client::Step& step);

    World& world_;
    Ledger& ledger_;
    client::Session session_;
    std::unique_ptr<shm::Segment> segment_;  // read only, for the time stamps of decisions
    std::deque<std::uint32_t> waiting_;  // requests that have not ended and are not in the session, in order
    std::deque<std::uint32_t> orphans_;  // live in the session, but in no microbatch since a scheduler died
    std::vector<Microbatch> batches_;
    std::vector<Progress> progress_;                // by request
    std::deque<std::vector<std::uint32_t>> masks_;  // of the step that is submitted
    std::uint64_t next_step_ = 0;                   // the next step to submit
    std::uint64_t truncations_ = 0;                 // number of truncation checks
};

}  // namespace croupier::sim
