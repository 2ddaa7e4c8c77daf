// Members of a fan-out in processes of their own: this test's program, executed again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "fan_out/fan_out.h"

namespace croupier::testing {

enum class PeerTask {
    echo,       // answers each record with its own bytes, until one that says "end"
    count,      // checks that records are numbered 1, 2, 3 …, answers the number of each that says "end"
    late_echo,  // joins, and begins to receive when its input ends
    root        // sends one record as the root, then waits for the end of its input
};

class Peer {
  public:
    Peer(const fan_out::FanOutOptions& options, PeerTask task);
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    // Kills what still runs.
    ~Peer();

    void end_input();
    void kill();
    void pause();  // as a host that vanishes: nothing closes the connection
    bool has_ended() const;
    // Its exit code and what it said.
    int wait();
    const std::string& said() const { return said_; }

  private:
    pid_t pid_ = 0;
    int input_ = -1;
    int output_ = -1;
    std::string said_;
};

fan_out::FanOutKeys keys_of_root();
fan_out::FanOutKeys keys_of_member();

}  // namespace croupier::testing
