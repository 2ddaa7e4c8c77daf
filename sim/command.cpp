#include "sim/command.h"

#include <CLI/CLI.hpp>

#include "command_line/choices.h"
#include "command_line/number_between.h"
#include "command_line/parse.h"
#include "proto/default_paths.h"
#include "proto/geometry.h"
#include "proto/schedule_slot.h"
#include "sim/request_mixes.h"

namespace croupier::sim {
namespace {

using command_line::add_choice;

constexpr const char* kExamples =
    "Examples:\n"
    "  croupier sim --demo\n"
    "      serve requests for some seconds and verify a sample of the tokens\n"
    "  croupier sim --tp 4 --pp 2 --batch 64 --steps 300 --json\n"
    "      run a tensor-parallel engine; the last line is a JSON object\n"
    "  croupier sim --samplers 2 --chaos samplers --kills 20\n"
    "      kill samplers during the run; the tokens stay the same\n"
    "  croupier sim --writer cuda --batch 256 --mix fixed --samplers 14 --wait spin \\\n"
    "      --summaries --json\n"
    "      measure from logits to tokens in GPU memory (hbm_to_hbm_us)\n"
    "  croupier sim --endpoint default --steps 1000\n"
    "      put load on a running daemon\n";

command_line::Choices<SimMix> mixes() {
    static_assert(kRequestMixes.size() == static_cast<std::size_t>(SimMix::mixed) + 1);
    command_line::Choices<SimMix> choices;
    for (std::size_t mix = 0; mix < kRequestMixes.size(); ++mix)
        choices.emplace_back(kRequestMixes[mix], static_cast<SimMix>(mix));
    return choices;
}

void add_daemon_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Daemon";
    command
        .add_option("--endpoint", options.endpoint,
                    "Control endpoint of a running daemon, or `default` for the daemon that serves this "
                    "user (default: start one)")
        ->group(group);
    command
        .add_option("--croupierd", options.croupierd,
                    "Path of the daemon to start (default: in the folder of this executable)")
        ->group(group);
    command.add_option("--shm-dir", options.shm_dir, "Directory for the segments of the started daemon")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--samplers", options.samplers,
                    "Number of samplers of the started daemon; 0: its default")
        ->capture_default_str()
        ->check(CLI::Range(0, 256))
        ->group(group);
    command.add_option("--threads-per-sampler", options.threads_per_sampler, "Threads per sampler")
        ->capture_default_str()
        ->check(CLI::Range(1, 64))
        ->group(group);
    command.add_option("--wait", options.wait, "How samplers wait")
        ->capture_default_str()
        ->check(command_line::one_of({"spin", "adaptive", "sleep"}))
        ->group(group);
}

void add_engine_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Engine";
    command.add_option("--vocab", options.vocab, "Tokens in the vocabulary")
        ->capture_default_str()
        ->check(CLI::Range(256U, proto::kMaxVocab))
        ->group(group);
    command.add_option("--batch", options.batch, "Columns per microbatch")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxBatch))
        ->group(group);
    command.add_option("--tp", options.tp, "Tensor-parallel ranks, each a writer process")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxTp))
        ->group(group);
    command.add_option("--pp", options.pp, "Pipeline stages")
        ->capture_default_str()
        ->check(CLI::Range(1U, 32U))
        ->group(group);
    command.add_option("--in-flight", options.in_flight, "Microbatches in flight; 0: one more than --pp")
        ->capture_default_str()
        ->check(CLI::Range(0U, proto::kMaxSlots))
        ->group(group);
    command
        .add_option(
            "--ahead", options.ahead,
            "Steps of a microbatch in flight: the next steps are submitted before this one is decided")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxSlots))
        ->group(group);
    command
        .add_option(
            "--draft", options.draft,
            "Speculation: each column of a step is a window of 1 row and up to so many drafts, right, "
            "wrong and absent ones, in chains and trees")
        ->capture_default_str()
        ->check(CLI::Range(0U, proto::kMaxWindowRows - 1))
        ->group(group);
    command
        .add_option(
            "--replay", options.replay,
            "Rows are perturbed, as by passes of changing shape. After so many tokens a window decides them "
            "again from rows as they should be, and releases those that match and the first that does not")
        ->capture_default_str()
        ->check(CLI::Range(0U, proto::kMaxWindowRows - 1))
        ->group(group);
    command
        .add_option("--stage-ms", options.stage_ms,
                    "Duration of a pipeline stage in ms; on a GPU, of the forward pass")
        ->capture_default_str()
        ->check(command_line::number_between(0.0, 10000.0))
        ->group(group);
    add_choice(command, "--dtype", options.dtype,
               {{"bf16", proto::Dtype::bf16}, {"fp16", proto::Dtype::fp16}, {"fp32", proto::Dtype::fp32}},
               "Data type of the logits")
        ->group(group);
    command.add_option("--tile", options.tile, "Consecutive entries of a row in a tile")
        ->capture_default_str()
        ->check(CLI::IsMember({1U, proto::kBlockIds}))
        ->group(group);
    add_choice(command, "--order", options.hotness_order, {{"identity", false}, {"random", true}},
               "Order of the vocabulary's blocks in rows")
        ->group(group);
    command
        .add_flag(
            "--summaries", options.summaries,
            "Writers also store the largest logit of each tile; samplers use it if tiles have 64 entries")
        ->group(group);
    add_choice(command, "--transport", options.transport,
               {{"rows", Transport::rows}, {"lean", Transport::lean}},
               "What writers send: whole rows, or lean steps")
        ->group(group);
    add_choice(command, "--writer", options.on_gpu, {{"host", false}, {"cuda", true}},
               "Where logits are made: host, or cuda: by a real LM head, one GPU for each rank, in bf16")
        ->group(group);
    add_choice(command, "--rows", options.rows_copied, {{"lent", false}, {"copied", true}},
               "With --writer cuda and lean steps: rows stay in place until the step is decided (lent), or "
               "the writer copies them and they are overwritten after each step (copied)")
        ->group(group);
    command
        .add_flag("--graphs", options.replays_graphs,
                  "Capture the GPU's enqueues into CUDA graphs and replay them (--writer cuda)")
        ->group(group);
    command
        .add_flag("--await-tokens", options.awaits_tokens,
                  "The GPU's stream waits for each step's tokens (--writer cuda, --in-flight 1)")
        ->group(group);
    add_choice(command, "--randoms", options.randoms_in_ring, {{"computed", false}, {"ring", true}},
               "Samplers compute random numbers, or read them from the ring of the writer")
        ->group(group);
    add_choice(command, "--decisions", options.decisions_over_zmq, {{"ring", false}, {"zmq", true}},
               "How decisions return to the engine")
        ->group(group);
}

void add_work_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Work";
    command.add_option("--steps", options.steps, "Amount of work, in full microbatches")
        ->capture_default_str()
        ->check(CLI::Range(1U, 100'000'000U))
        ->group(group);
    command.add_option("--seed", options.seed, "Seed of the requests and logits")
        ->capture_default_str()
        ->group(group);
    add_choice(command, "--mix", options.mix, mixes(),
               "Sampling parameters of the requests. In a fixed mix all requests are alike and as long as "
               "--output-max: fixed is the case full of `bench decide`, fixed-temperature has only a "
               "temperature, fixed-top-p also has top-p and penalties")
        ->group(group);
    command
        .add_flag("--masked", options.masked,
                  "Every request has a grammar mask, which changes with each token")
        ->group(group);
    command.add_option("--arrival-rate", options.arrival_rate, "Requests a second; 0: all at once")
        ->capture_default_str()
        ->check(command_line::number_between(0.0, 1e6))
        ->group(group);
    command.add_option("--prompt-max", options.prompt_max, "Longest prompt")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1U << 20U))
        ->group(group);
    command.add_option("--output-max", options.output_max, "Longest output")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1U << 20U))
        ->group(group);
    command.add_option("--logits", options.logits, "'generated', or a file with bf16 rows")
        ->capture_default_str()
        ->group(group);
    command.add_option("--rows-vocab", options.rows_vocab, "Row length in that file; 0: --vocab")
        ->capture_default_str()
        ->group(group);
}

void add_run_options(CLI::App& command, SimOptions& options) {
    constexpr const char* group = "Run";
    command.add_flag("--json", options.json, "Print one JSON object as the last line, and no progress line")
        ->group(group);
    command
        .add_flag("--demo", options.demo,
                  "Always show the progress line, verify only a sample, and suggest next commands")
        ->group(group);
    command
        .add_option("--streams-out", options.streams_out,
                    "Write every request's tokens to this file, one line per request")
        ->group(group);
    add_choice(command, "--chaos", options.chaos,
               {{"samplers", ChaosTarget::samplers},
                {"daemon", ChaosTarget::daemon},
                {"writer", ChaosTarget::writer},
                {"client", ChaosTarget::client}},
               "Which processes to kill during the run, --kills times")
        ->group(group);
    command
        .add_option("--truncates", options.truncates,
                    "How many times to truncate a sequence by up to 48 tokens, which are then decided again")
        ->capture_default_str()
        ->check(CLI::Range(0U, 10'000'000U))
        ->group(group);
    command
        .add_flag(
            "--stops", options.stops,
            "The session has a tokenizer and most requests have stop strings, stop at a JSON value or at "
            "a loop; their ends and every released byte are verified")
        ->group(group);
    command.add_option("--kills", options.kills, "Number of kills by --chaos")
        ->capture_default_str()
        ->check(CLI::Range(0U, 100'000U))
        ->group(group);
    add_choice(command, "--verify", options.verification,
               {{"all", Verification::all},
                {"after", Verification::after},
                {"sample", Verification::sample},
                {"never", Verification::never}},
               "Which decisions to verify, on idle cores: all; after (all, but once serving has ended); "
               "sample (until three seconds after serving); never. The default of --demo is sample")
        ->group(group);
    command
        .add_flag("--keep", options.keep,
                  "Keep the directory of the started daemon, with its configuration and log")
        ->group(group);
    command.add_option("--timeout-s", options.timeout_s, "Abort the run after this many seconds")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1'000'000U))
        ->group(group);
}

// What is of whole rows alone.
void check_transport(const SimOptions& options) {
    if (options.transport == Transport::rows) return;
    const char* option = options.summaries                  ? "--summaries"
                         : options.hotness_order            ? "--order"
                         : options.randoms_in_ring          ? "--randoms"
                         : options.tile != proto::kBlockIds ? "--tile"
                                                            : nullptr;
    if (option == nullptr) return;
    throw CLI::ValidationError(option, "needs --transport rows: lean steps have no use for it");
}

void check_replay(const SimOptions& options) {
    if (options.replay == 0) return;
    const char* option = options.draft > 0       ? "--draft"
                         : options.ahead > 1     ? "--ahead"
                         : options.truncates > 0 ? "--truncates"
                                                 : nullptr;
    if (option == nullptr) return;
    throw CLI::ValidationError(option,
                               "not supported with --replay, which plans windows and truncates itself");
}

void check_together(const SimOptions& options) {
    check_transport(options);
    check_replay(options);
    const char* const windows = options.replay > 0 ? "--replay" : "--draft";
    if (options.steps_in_flight() > proto::kMaxSlots) {
        throw CLI::ValidationError(
            "--in-flight", "microbatches times --ahead must be at most " + std::to_string(proto::kMaxSlots));
    }
    if (options.ahead > 1 && options.on_gpu) {
        throw CLI::ValidationError("--ahead",
                                   "not supported with --writer cuda, whose model needs delivered tokens");
    }
    if (options.window_rows() * options.ahead > proto::kMaxWindowRows) {
        throw CLI::ValidationError(windows, "one more than it, times --ahead, must be at most " +
                                                std::to_string(proto::kMaxWindowRows) +
                                                ": the rows that a sequence may have in flight");
    }
    if (options.rows_at_most() > proto::kMaxBatch) {
        throw CLI::ValidationError(windows, "one more than it, times --batch, must be at most " +
                                                std::to_string(proto::kMaxBatch) + ": the rows of a step");
    }
    if (options.replay > 0 && options.on_gpu) {
        throw CLI::ValidationError(windows, "not supported with --writer cuda in this version");
    }
    if (options.window_rows() > 1 && options.randoms_in_ring) {
        throw CLI::ValidationError(windows,
                                   "not supported with --randoms ring: a writer knows no row's position");
    }
    if (options.awaits_tokens && (!options.on_gpu || options.microbatches() != 1)) {
        throw CLI::ValidationError("--await-tokens",
                                   "needs --writer cuda and --in-flight 1: only a GPU's stream can wait, and "
                                   "it would block other steps in flight");
    }
    if (options.replays_graphs && !options.on_gpu) {
        throw CLI::ValidationError("--graphs", "needs --writer cuda");
    }
    if (options.rows_copied && (!options.on_gpu || options.transport == Transport::rows)) {
        throw CLI::ValidationError(
            "--rows",
            "only a GPU's rows of lean steps are lent or copied: give --writer cuda and "
            "--transport lean");
    }
    if (2 * options.batch * options.microbatches() > proto::kMaxSequences) {
        throw CLI::ValidationError("--batch", "batch times microbatches in flight must be at most " +
                                                  std::to_string(proto::kMaxSequences / 2));
    }
    if (options.tp > options.vocab) throw CLI::ValidationError("--tp", "must be at most --vocab");
    if (options.on_gpu && options.dtype != proto::Dtype::bf16) {
        throw CLI::ValidationError("--dtype", "must be bf16 with --writer cuda");
    }
    if (options.chaos == ChaosTarget::daemon && !options.endpoint.empty()) {
        throw CLI::ValidationError(
            "--chaos", "daemon cannot be combined with --endpoint: sim kills only a daemon that it started");
    }
    if (options.kills > 0 && options.chaos == ChaosTarget::none) {
        throw CLI::ValidationError("--kills", "needs --chaos, which says what to kill");
    }
    if (options.kills == 0 && options.chaos != ChaosTarget::none) {
        throw CLI::ValidationError("--chaos", "needs --kills, the number of kills");
    }
}

}  // namespace

int run_command(int argc, char** argv) {
    CLI::App app("Simulate an engine: serve requests and verify every decision", "croupier sim");
    app.footer(kExamples);
    SimOptions options;
    add_daemon_options(app, options);
    add_engine_options(app, options);
    add_work_options(app, options);
    add_run_options(app, options);
    app.callback([&options] { check_together(options); });
    if (const auto status = command_line::parse(app, argc, argv)) return *status;
    if (options.endpoint == "default") options.endpoint = proto::serving_paths().control_endpoint();
    if (options.demo && app.count("--verify") == 0) options.verification = Verification::sample;
    return run_sim(options);
}

}  // namespace croupier::sim
