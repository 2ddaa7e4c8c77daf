#include "sim/command.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "proto/geometry.h"
#include "tools/number_between.h"
#include "tools/request_mixes.h"

namespace croupier::sim {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  croupier sim --tp 4 --pp 2 --batch 64 --steps 300 --json\n"
    "      a tensor-parallel engine against a daemon of its own; the last line is one JSON object\n"
    "  croupier sim --samplers 2 --chaos samplers --kills 20\n"
    "      the same streams although sampler processes are killed while it runs\n"
    "  croupier sim --writer cuda --batch 256 --mix fixed --samplers 14 --wait spin --summaries --json\n"
    "      logits from a GPU's memory, tokens back in it: hbm_to_hbm_us of the JSON\n"
    "  croupier sim --endpoint ipc:///run/croupier/control.sock --steps 1000\n"
    "      load for a daemon that runs already\n";

std::map<std::string, SimMix> mixes() {
    static_assert(tools::kRequestMixes.size() == static_cast<std::size_t>(SimMix::mixed) + 1);
    std::map<std::string, SimMix> by_name;
    for (std::size_t mix = 0; mix < tools::kRequestMixes.size(); ++mix)
        by_name[tools::kRequestMixes[mix]] = static_cast<SimMix>(mix);
    return by_name;
}

void add_daemon_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Daemon";
    command
        .add_option("--endpoint", options.endpoint,
                    "Control endpoint of a running daemon; without it, one is started")
        ->group(group);
    command
        .add_option("--croupierd", options.croupierd, "The daemon to start; default: beside this executable")
        ->group(group);
    command.add_option("--shm-dir", options.shm_dir, "Where the started daemon keeps its segments")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--samplers", options.samplers,
                    "Sampler processes of the started daemon; 0: as many as it takes by itself")
        ->capture_default_str()
        ->check(CLI::Range(0, 256))
        ->group(group);
    command.add_option("--threads-per-sampler", options.threads_per_sampler, "Threads in each of them")
        ->capture_default_str()
        ->check(CLI::Range(1, 64))
        ->group(group);
    command.add_option("--wait", options.wait, "How samplers wait: spin, adaptive or sleep")
        ->capture_default_str()
        ->check(CLI::IsMember({"spin", "adaptive", "sleep"}))
        ->group(group);
}

void add_engine_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Engine";
    command.add_option("--vocab", options.vocab, "Tokens in the vocabulary")
        ->capture_default_str()
        ->check(CLI::Range(256U, proto::kMaxVocab))
        ->group(group);
    command.add_option("--batch", options.batch, "Columns of a microbatch")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxBatch))
        ->group(group);
    command.add_option("--tp", options.tp, "Tensor-parallel ranks: writer processes")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxTp))
        ->group(group);
    command.add_option("--pp", options.pp, "Pipeline stages")
        ->capture_default_str()
        ->check(CLI::Range(1U, 32U))
        ->group(group);
    command.add_option("--in-flight", options.in_flight, "Microbatches in flight; 0: one more than stages")
        ->capture_default_str()
        ->check(CLI::Range(0U, proto::kMaxSlots))
        ->group(group);
    command
        .add_option(
            "--ahead", options.ahead,
            "Steps of one microbatch in flight: a sequence's next ones are submitted before it is decided")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxSlots))
        ->group(group);
    command.add_option("--stage-ms", options.stage_ms, "Milliseconds of one pipeline stage")
        ->capture_default_str()
        ->check(tools::number_between(0.0, 10000.0))
        ->group(group);
    command.add_option("--dtype", options.dtype, "Logits as bf16, fp16 or fp32")
        ->transform(CLI::CheckedTransformer(std::map<std::string, proto::Dtype>{
            {"bf16", proto::Dtype::bf16}, {"fp16", proto::Dtype::fp16}, {"fp32", proto::Dtype::fp32}}))
        ->group(group);
    command.add_option("--tile", options.tile, "Entries of one sequence in a tile")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxTile))
        ->group(group);
    command.add_option("--order", options.hotness_order, "Vocabulary order: identity or random")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, bool>{{"identity", false}, {"random", true}}))
        ->group(group);
    command
        .add_flag("--summaries", options.summaries,
                  "Writers give each tile's largest logit too; samplers use them where tiles have 64 entries")
        ->group(group);
    command
        .add_option("--transport", options.transport,
                    "How writers send a step: rows, lean (some blocks, and what is known of the rest), "
                    "by-device (lean with --writer cuda, whose rows may be copied), or auto (likewise, where "
                    "the GPU's memory has room for the copies: as a session is that asks for nothing)")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, Transport>{{"rows", Transport::rows},
                                                                     {"lean", Transport::lean},
                                                                     {"by-device", Transport::by_device},
                                                                     {"auto", Transport::automatic}}))
        ->group(group);
    command
        .add_option("--writer", options.on_gpu,
                    "Where logits are made: host, or cuda (a real LM head's product, a GPU a rank; bf16)")
        ->transform(CLI::CheckedTransformer(std::map<std::string, bool>{{"host", false}, {"cuda", true}}))
        ->group(group);
    command
        .add_option(
            "--rows", options.rows_copied,
            "Of lean steps of --writer cuda: lent, which stay until the step is decided, or copied by "
            "the writer and written over behind each step")
        ->transform(CLI::CheckedTransformer(std::map<std::string, bool>{{"lent", false}, {"copied", true}}))
        ->group(group);
    command
        .add_flag("--graphs", options.replays_graphs,
                  "The GPU's enqueues are captured into CUDA graphs and replayed (--writer cuda)")
        ->group(group);
    command
        .add_flag(
            "--await-tokens", options.awaits_tokens,
            "The GPU's stream waits for a step's tokens, as an engine's does (--writer cuda, --in-flight 1)")
        ->group(group);
    command
        .add_option("--randoms", options.randoms_in_ring,
                    "Randoms computed by samplers or supplied in the ring")
        ->transform(CLI::CheckedTransformer(std::map<std::string, bool>{{"computed", false}, {"ring", true}}))
        ->group(group);
    command.add_option("--decisions", options.decisions_over_zmq, "How decisions come back: ring or zmq")
        ->transform(CLI::CheckedTransformer(std::map<std::string, bool>{{"ring", false}, {"zmq", true}}))
        ->group(group);
}

void add_work_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Work";
    command.add_option("--steps", options.steps, "Work to do, in full microbatches")
        ->capture_default_str()
        ->check(CLI::Range(1U, 100'000'000U))
        ->group(group);
    command.add_option("--seed", options.seed, "Requests and logits are a function of it")
        ->capture_default_str()
        ->group(group);
    command
        .add_option(
            "--mix", options.mix,
            "Requests: greedy, plain, full, mixed (default); or all alike and as long as --output-max: "
            "fixed (the case full of `bench decide`), fixed-temperature (nothing else), fixed-top-p "
            "(with penalties)")
        ->transform(CLI::CheckedTransformer(mixes()))
        ->group(group);
    command.add_flag("--masked", options.masked, "Every request under a grammar mask, another at each token")
        ->group(group);
    command.add_option("--arrival-rate", options.arrival_rate, "Requests a second; 0: all at once")
        ->capture_default_str()
        ->check(tools::number_between(0.0, 1e6))
        ->group(group);
    command.add_option("--prompt-max", options.prompt_max, "Longest prompt")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1U << 20U))
        ->group(group);
    command.add_option("--output-max", options.output_max, "Longest output")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1U << 20U))
        ->group(group);
    command.add_option("--logits", options.logits, "'generated', or a file of bf16 rows")
        ->capture_default_str()
        ->group(group);
    command.add_option("--rows-vocab", options.rows_vocab, "Entries of a row of that file; 0: --vocab")
        ->capture_default_str()
        ->group(group);
}

void add_run_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Run";
    command.add_flag("--json", options.json, "One JSON object as the last line, no live view")->group(group);
    command.add_flag("--demo", options.demo, "The live view, whatever the output is")->group(group);
    command
        .add_option("--streams-out", options.streams_out, "Writes every request's tokens, one line a request")
        ->group(group);
    command
        .add_option("--chaos", options.chaos,
                    "What is killed while it runs: samplers, daemon, writer or client")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, ChaosTarget>{{"samplers", ChaosTarget::samplers},
                                                                       {"daemon", ChaosTarget::daemon},
                                                                       {"writer", ChaosTarget::writer},
                                                                       {"client", ChaosTarget::client}}))
        ->group(group);
    command
        .add_option("--truncates", options.truncates,
                    "How many times a sequence is cut back by up to 48 tokens, which are then decided again")
        ->capture_default_str()
        ->check(CLI::Range(0U, 10'000'000U))
        ->group(group);
    command.add_option("--kills", options.kills, "How many times")
        ->capture_default_str()
        ->check(CLI::Range(0U, 100'000U))
        ->group(group);
    command
        .add_option("--verify", options.verification,
                    "When decisions are verified: along, on what time the cores have left; after the "
                    "serving; or never, "
                    "where only times are wanted")
        ->transform(CLI::CheckedTransformer(std::map<std::string, Verification>{
            {"along", Verification::along}, {"after", Verification::after}, {"never", Verification::never}}))
        ->group(group);
    command.add_flag("--keep", options.keep, "Keeps the started daemon's directory: configuration and log")
        ->group(group);
    command.add_option("--timeout-s", options.timeout_s, "Seconds after which the run is given up")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1'000'000U))
        ->group(group);
}

void check_together(const SimOptions& options) {
    if (options.steps_in_flight() > proto::kMaxSlots) {
        throw CLI::ValidationError(
            "--in-flight", "microbatches times --ahead may be at most " + std::to_string(proto::kMaxSlots));
    }
    if (options.ahead > 1 && options.on_gpu) {
        throw CLI::ValidationError("--ahead", "the LM head of --writer cuda knows delivered tokens only");
    }
    if (options.awaits_tokens && (!options.on_gpu || options.microbatches() != 1)) {
        throw CLI::ValidationError(
            "--await-tokens",
            "only a GPU's stream waits, and of several steps in flight one would hold up the "
            "others: give --writer cuda and --in-flight 1");
    }
    if (options.replays_graphs && !options.on_gpu) {
        throw CLI::ValidationError("--graphs", "only a GPU replays CUDA graphs: give --writer cuda");
    }
    if (options.rows_copied && (!options.on_gpu || options.transport == Transport::rows)) {
        throw CLI::ValidationError(
            "--rows",
            "only a GPU's rows of lean steps are lent or copied: give --writer cuda and "
            "--transport lean, by-device or auto");
    }
    if (2 * options.batch * options.microbatches() > proto::kMaxSequences) {
        throw CLI::ValidationError("--batch", "batch times microbatches in flight may be at most " +
                                                  std::to_string(proto::kMaxSequences / 2));
    }
    if (options.tp > options.vocab) throw CLI::ValidationError("--tp", "more ranks than tokens");
    if (options.on_gpu && options.dtype != proto::Dtype::bf16) {
        throw CLI::ValidationError("--dtype", "the LM head of --writer cuda makes bf16");
    }
    if (options.chaos == ChaosTarget::daemon && !options.endpoint.empty()) {
        throw CLI::ValidationError("--chaos",
                                   "daemon needs a daemon that sim itself starts: leave --endpoint out");
    }
    if (options.kills > 0 && options.chaos == ChaosTarget::none) {
        throw CLI::ValidationError("--kills", "say what is to be killed with --chaos");
    }
    if (options.kills == 0 && options.chaos != ChaosTarget::none) {
        throw CLI::ValidationError("--chaos", "say how many kills with --kills");
    }
}

}  // namespace

int run_command(int argc, char** argv) {
    CLI::App app("Simulated engine: serves requests and verifies every decision", "croupier sim");
    app.footer(kExamples);
    SimOptions options;
    add_daemon_options(app, options);
    add_engine_options(app, options);
    add_work_options(app, options);
    add_run_options(app, options);
    app.callback([&options] { check_together(options); });
    CLI11_PARSE(app, argc, argv);
    return run_sim(options);
}

}  // namespace croupier::sim
