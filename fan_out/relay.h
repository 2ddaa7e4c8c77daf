// The loop of `croupier relay`: it joins one group after the other until it is told to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "client/control_forwarder.h"
#include "client/ring_relay.h"
#include "fan_out/fan_out.h"

namespace croupier::fan_out {

// The loop writes these counts, and the metrics read them.
struct RelayCounts {
    std::atomic<std::uint64_t> groups{0};       // joined
    std::atomic<std::uint64_t> groups_lost{0};  // not closed by the scheduler, which usually died
    std::atomic<std::uint64_t> joins_refused{0};
    std::atomic<std::uint64_t> attachments{0};
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> record_bytes{0};
    std::atomic<std::uint64_t> records_refused{0};
    std::atomic<std::uint64_t> answers{0};
    std::atomic<std::uint64_t> apply_ns{0};         // time spent on applying records
    std::atomic<std::uint64_t> caught_up_at_ns{0};  // the last time when no record waited; CLOCK_MONOTONIC
    std::atomic<std::uint64_t> answers_waiting{0};
    std::atomic<std::uint64_t> steps_in_flight{0};
    std::atomic<bool> joined{false};
    std::atomic<bool> attached{false};
};

struct RelayObserver {
    // Called when the relay's status changes. The first call also means that its options are valid.
    std::function<void(const std::string& status)> on_status;
    // Called in each iteration, at least once a second, while it joins or serves.
    std::function<void()> on_look;
};

class Relay {
  public:
    // `daemon`: where the control socket of the one on this host is.
    Relay(FanOutOptions group, std::string daemon, RelayObserver observer)
        : group_(std::move(group)), daemon_(std::move(daemon)), observer_(std::move(observer)) {}

    // Throws std::runtime_error if it can serve no scheduler: an option is wrong, or NCCL is absent.
    void run(const std::atomic<bool>& stop);
    // The same for one scheduler: ends when that leaves or dies, too.
    void run_once(const std::atomic<bool>& stop);

    const RelayCounts& counts() const { return counts_; }

  private:
    // Serves until the scheduler is gone or `stop` is set. Returns the reason, or nothing after `stop`.
    std::string serve(FanOut& group, client::RingRelay& ring, client::ControlForwarder& control,
                      const std::atomic<bool>& stop);
    // False: not joined, and worth another try.
    bool join_and_serve(const std::atomic<bool>& stop);
    void serve_group(FanOut& group, const std::atomic<bool>& stop);
    std::optional<client::AnswerBytes> apply(client::RingRelay& ring, client::ControlForwarder& control,
                                             std::span<const std::uint8_t> record);
    // Writes the relay's news to the log and the counts.
    void note(client::RingRelay& ring);
    void say_waiting(const std::string& refusal);

    FanOutOptions group_;
    std::string daemon_;
    RelayObserver observer_;
    RelayCounts counts_;
    std::string said_;  // the last status of a wait, which is logged once
};

}  // namespace croupier::fan_out
