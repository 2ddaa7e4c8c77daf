// The three round trips that `croupier bench ipc` compares, each between two processes on two cores.
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

// `bytes` there (copied in and out) and a 64-byte record back, through two single-slot rings in shared
// memory, both sides spinning. The least that any step of so many bytes can cost between two processes.
std::vector<std::uint64_t> time_bare_ring(const RoundOptions& options, std::uint32_t bytes);

// A 64-byte message there and back over ZMQ ipc.
std::vector<std::uint64_t> time_zmq(const RoundOptions& options);

struct DecisionOptions {
    std::uint32_t vocab = 1024;
    bool greedy = true;  // else penalties, top-k, top-p and min-p together
    bool logprob = false;
    bool over_zmq = false;  // decisions come over the daemon's stream, not in the ring
    std::string croupierd;
};

// A one-column step through croupierd: from the last tile's publication to the decision in the scheduler, and
// of that the part from the decision's commit on.
struct DecisionTimes {
    std::vector<std::uint64_t> decided;
    std::vector<std::uint64_t> handed_over;
};
DecisionTimes time_decisions(const RoundOptions& options, const DecisionOptions& decision);

void bind_to_core(int core);

}  // namespace croupier::bench
