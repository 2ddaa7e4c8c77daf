// The round trips that `croupier bench ipc` compares, each between two processes on two cores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::bench {

struct RoundOptions {
    std::uint32_t rounds = 20000;
    std::uint32_t warm_up = 2000;
    int own_core = 0;
    int peer_core = 1;
};

// Sends `bytes` (copied in and out) and a 64-byte record back, through two single-slot rings in shared
// memory, both sides spinning: the lower bound for a step of this size between two processes.
std::vector<std::uint64_t> time_bare_ring(const RoundOptions& options, std::uint32_t bytes);

// A 64-byte message both ways over ZMQ ipc.
std::vector<std::uint64_t> time_zmq(const RoundOptions& options);

struct DecisionOptions {
    std::uint32_t vocab = 1024;
    bool greedy = true;  // otherwise penalties, top-k, top-p and min-p together
    bool logprob = false;
    bool over_zmq = false;  // decisions are returned by the daemon's stream, not the ring
    std::string croupierd;
};

// A step with one column through croupierd: the time from the last tile's publication to the decision in the
// scheduler, and the part of it after the commit.
struct DecisionTimes {
    std::vector<std::uint64_t> decided;
    std::vector<std::uint64_t> handed_over;
};
DecisionTimes time_decisions(const RoundOptions& options, const DecisionOptions& decision);

void bind_to_core(int core);

}  // namespace croupier::bench
