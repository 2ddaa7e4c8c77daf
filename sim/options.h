// Options of `croupier sim`: the simulated engine, the daemon, and the processes to kill.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "proto/dtype.h"
#include "testing/own_daemon.h"

namespace croupier::sim {

// Requests of the fixed mixes are all alike and as long as --output-max. Names: sim/request_mixes.h.
enum class SimMix { greedy, plain, full, fixed, fixed_temperature, fixed_top_p, mixed };
// Which decisions are verified, and when. all: on idle cores, from the start. after: all, once serving has
// ended. sample: like all, but ends soon after serving. never: for runs that only measure.
enum class Verification { all, after, sample, never };
enum class ChaosTarget { none, samplers, daemon, writer, client };

enum class Transport : std::uint8_t { rows, lean };

struct SimOptions {
    std::string endpoint;   // empty: start a daemon
    std::string croupierd;  // empty: in the folder of the running executable
    std::string shm_dir = testing::private_shm_dir();
    std::uint32_t samplers = 1;
    std::uint32_t threads_per_sampler = 1;
    std::string wait = "adaptive";

    std::uint32_t vocab = 151936;
    std::uint32_t batch = 64;
    std::uint32_t tp = 1;
    std::uint32_t pp = 1;
    std::uint32_t in_flight = 0;  // 0: pp + 1
    std::uint32_t ahead = 1;      // steps in flight of one microbatch
    std::uint32_t draft = 0;      // tokens that a window drafts at most
    // Tokens that are decided from perturbed rows before a window decides them again, from their own; 0: rows
    // are not perturbed.
    std::uint32_t replay = 0;
    bool stops = false;           // most requests have stop strings
    std::uint32_t truncates = 0;  // how often a sequence is truncated and decided again
    double stage_ms = 0.0;
    double arrival_rate = 0.0;  // requests a second; 0: all at once
    SimMix mix = SimMix::mixed;
    bool masked = false;  // all requests use a grammar mask
    std::uint32_t prompt_max = 32768;
    std::uint32_t output_max = 128;
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t tile = 64;
    bool hotness_order = false;
    bool on_gpu = false;          // GPUs compute the logits
    bool awaits_tokens = false;   // the GPU's stream waits for tokens, instead of a thread that fetches them
    bool rows_copied = false;     // a GPU's rows are written over behind each step
    bool replays_graphs = false;  // CUDA graphs: a GPU's enqueues are captured once and replayed
    bool summaries = false;
    Transport transport = Transport::rows;
    bool randoms_in_ring = false;
    bool decisions_over_zmq = false;
    std::string logits = "generated";  // or a file of rows
    std::uint32_t rows_vocab = 0;      // columns of that file; 0: vocab
    std::uint64_t seed = 1;
    std::uint32_t steps = 200;

    Verification verification = Verification::all;
    bool json = false;
    bool demo = false;
    bool keep = false;
    std::string streams_out;
    ChaosTarget chaos = ChaosTarget::none;
    std::uint32_t kills = 0;
    std::uint32_t timeout_s = 600;

    std::uint32_t microbatches() const { return in_flight == 0 ? pp + 1 : in_flight; }
    // Of a window. A replay has a row for each token, and one for the token behind them.
    std::uint32_t window_rows() const { return 1 + std::max(draft, replay); }
    std::uint32_t rows_at_most() const { return batch * window_rows(); }  // of a step
    std::uint32_t steps_in_flight() const { return microbatches() * ahead; }
    // Some mixed requests are intended to end with an error (Request::may_fail). Not in the demo, and not
    // with a running daemon, whose alerts would fire.
    bool plans_errors() const { return endpoint.empty() && !demo; }
};

}  // namespace croupier::sim
