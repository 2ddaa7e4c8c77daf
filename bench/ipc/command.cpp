#include "bench/ipc/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/ipc/rounds.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Measures round trips between two processes on two cores. A bare ring in shared memory is the lower bound; ZMQ
is the usual alternative. A decision is timed from the last tile's publication to the scheduler.

Examples:
  croupier bench ipc
  croupier bench ipc --rounds 100000 --own-core 2 --peer-core 3 --json)";

struct IpcOptions {
    RoundOptions rounds;
    DecisionOptions decision;
    bool json = false;
};

std::string line(const char* what, const measurement::Percentiles& times) {
    return fmt::format("{:<44} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f}\n", what, times.p50, times.p99, times.p999,
                       times.max);
}

int run(const IpcOptions& options) {
    DecisionOptions scored = options.decision;
    scored.logprob = true;
    DecisionOptions full = scored;
    full.greedy = false;
    // The size of the step's row in bytes, in bf16.
    const std::uint32_t row_bytes = options.decision.vocab * 2;
    const measurement::Percentiles small_ring =
        measurement::percentiles_us(time_bare_ring(options.rounds, 64));
    const measurement::Percentiles ring =
        measurement::percentiles_us(time_bare_ring(options.rounds, row_bytes));
    DecisionOptions streamed = options.decision;
    streamed.over_zmq = true;
    const DecisionTimes over_ring = time_decisions(options.rounds, options.decision);
    const measurement::Percentiles decision = measurement::percentiles_us(over_ring.decided);
    const measurement::Percentiles ring_hands = measurement::percentiles_us(over_ring.handed_over);
    const measurement::Percentiles with_logprob =
        measurement::percentiles_us(time_decisions(options.rounds, scored).decided);
    const measurement::Percentiles controls =
        measurement::percentiles_us(time_decisions(options.rounds, full).decided);
    const measurement::Percentiles stream_hands =
        measurement::percentiles_us(time_decisions(options.rounds, streamed).handed_over);
    const measurement::Percentiles zmq = measurement::percentiles_us(time_zmq(options.rounds));
    if (options.json) {
        std::cout << nlohmann::json{{"bare_ring_64_bytes_us", to_json(small_ring)},
                                    {"bare_ring_us", to_json(ring)},
                                    {"decision_us", to_json(decision)},
                                    {"decision_with_logprob_us", to_json(with_logprob)},
                                    {"decision_full_controls_us", to_json(controls)},
                                    {"commit_to_scheduler_ring_us", to_json(ring_hands)},
                                    {"commit_to_scheduler_zmq_us", to_json(stream_hands)},
                                    {"zmq_ipc_us", to_json(zmq)},
                                    {"decision_to_ring_p50", decision.p50 / ring.p50},
                                    {"decision_to_ring_64_bytes_p50", decision.p50 / small_ring.p50},
                                    {"decision_to_zmq_p50", decision.p50 / zmq.p50},
                                    {"rounds", options.rounds.rounds},
                                    {"vocab", options.decision.vocab},
                                    {"environment", measurement::environment()}}
                  << "\n";
        return 0;
    }
    std::cout << fmt::format("{:<44} {:>8} {:>8} {:>8} {:>9}\n", "microseconds", "p50", "p99", "p99.9", "max")
              << line("bare ring, 64 bytes both ways", small_ring)
              << line(fmt::format("bare ring, {} bytes out, 64 back", row_bytes).c_str(), ring)
              << line(
                     fmt::format("last tile to decision, {} entries, greedy", options.decision.vocab).c_str(),
                     decision)
              << line("same, with log-prob", with_logprob)
              << line("with log-prob, penalties, top-k, top-p, min-p", controls)
              << line("commit to the scheduler, ring", ring_hands)
              << line("commit to the scheduler, ZMQ stream", stream_hands)
              << line("ZMQ ipc, 64 bytes both ways", zmq)
              << fmt::format(
                     "\ngreedy decision: {:.2f} times the bare ring, {:.2f} times the ZMQ round trip (p50)\n",
                     decision.p50 / ring.p50, decision.p50 / zmq.p50);
    return 0;
}

}  // namespace

void add_ipc_bench(CLI::App& bench, int& status) {
    auto* ipc =
        bench.add_subcommand("ipc", "Compare the latency of a decision with a bare ring and with ZMQ");
    ipc->footer(kHelp);
    auto options = std::make_shared<IpcOptions>();
    ipc->add_option("--rounds", options->rounds.rounds, "Round trips to measure of each kind")
        ->capture_default_str();
    ipc->add_option("--vocab", options->decision.vocab, "Logits in the row of the step")
        ->capture_default_str();
    ipc->add_option("--own-core", options->rounds.own_core, "Core of the scheduler")->capture_default_str();
    ipc->add_option("--peer-core", options->rounds.peer_core, "Core of the other process")
        ->capture_default_str();
    ipc->add_option("--croupierd", options->decision.croupierd,
                    "Path of croupierd (default: in the folder of this program)");
    ipc->add_flag("--json", options->json, "Print one JSON object");
    ipc->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
