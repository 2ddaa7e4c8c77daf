#include "bench/windows/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/windows/window_steps.h"
#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Times steps of a session, from the logits to the last decision, in turn: plain steps, of one row a sequence, and
steps with windows whose drafts are all right, all wrong, or mixed. It prints what a decided row costs beside one of
a plain step, and what a rejected row costs. The daemon is started by this command; its samplers spin, and each
should have a core of its own.

Examples:
  croupier bench windows
  croupier bench windows --windows 1 --drafts 15 --lean --json)";

constexpr std::array kNames = {"plain", "right", "wrong", "mixed"};
static_assert(kNames.size() == static_cast<std::size_t>(StepKind::count_));

struct Options {
    WindowsOptions steps;
    bool json = false;
};

struct Costs {
    std::array<measurement::Percentiles, kNames.size()> us;
    std::array<KindTimes, kNames.size()> times;

    const measurement::Percentiles& of(StepKind kind) const { return us[static_cast<std::size_t>(kind)]; }
    double decided_each(StepKind kind) const {
        const KindTimes& all = times[static_cast<std::size_t>(kind)];
        return static_cast<double>(all.decided) / static_cast<double>(all.ns.size());
    }
    double us_a_row(StepKind kind) const { return of(kind).p50 / decided_each(kind); }
    double right_to_plain() const { return us_a_row(StepKind::right) / us_a_row(StepKind::plain); }
    double ns_a_rejected(double rejected) const {
        return (of(StepKind::wrong).p50 - of(StepKind::plain).p50) / rejected * 1e3;
    }
};

Costs measure(const WindowsOptions& options) {
    constexpr std::uint32_t kWarmUp = 10;
    WindowSteps steps(options);
    Costs costs;
    command_line::Progress progress("steps", 1);
    progress.begin("deciding", options.steps);
    for (std::uint32_t round = 0; round < kWarmUp + options.steps; ++round) {
        for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
            KindTimes unused;
            steps.step(static_cast<StepKind>(kind), round < kWarmUp ? unused : costs.times[kind]);
        }
        if (round >= kWarmUp) progress.advance(1);
    }
    for (std::size_t kind = 0; kind < kNames.size(); ++kind)
        costs.us[kind] = measurement::percentiles_us(costs.times[kind].ns);
    return costs;
}

void print_json(const WindowsOptions& options, const Costs& costs, double rejected) {
    nlohmann::json kinds = nlohmann::json::object();
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
        kinds[kNames[kind]] = {{"us", measurement::to_json(costs.us[kind])},
                               {"decided", costs.decided_each(static_cast<StepKind>(kind))}};
    }
    std::cout << nlohmann::json{{"kinds", kinds},
                                {"decided_row_to_plain", costs.right_to_plain()},
                                {"rejected_row_ns", costs.ns_a_rejected(rejected)},
                                {"windows", options.windows},
                                {"drafts", options.drafts},
                                {"accepted", options.accepted},
                                {"samplers", options.samplers},
                                {"vocab", options.vocab},
                                {"lean", options.lean},
                                {"greedy", options.greedy},
                                {"environment", measurement::environment()}}
              << "\n";
}

void print_table(const Costs& costs, double rejected) {
    std::cout << fmt::format("{:<8} {:>10} {:>10} {:>10} {:>14}\n", "drafts", "p50 us", "p99", "decided",
                             "us a row");
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
        const auto which = static_cast<StepKind>(kind);
        std::cout << fmt::format("{:<8} {:>10.1f} {:>10.1f} {:>10.1f} {:>14.3f}\n", kNames[kind],
                                 costs.us[kind].p50, costs.us[kind].p99, costs.decided_each(which),
                                 costs.us_a_row(which));
    }
    std::cout << fmt::format("\na decided row: {:.2f} times one of a plain step; a rejected row: {:.0f} ns\n",
                             costs.right_to_plain(), costs.ns_a_rejected(rejected));
}

int run(const Options& options) {
    if (std::uint64_t{options.steps.windows} * (1 + options.steps.drafts) > proto::kMaxBatch) {
        throw CLI::ValidationError("--windows", "times one more than --drafts must be at most " +
                                                    std::to_string(proto::kMaxBatch) +
                                                    ", the rows of a step");
    }
    const Costs costs = measure(options.steps);
    const double rejected = static_cast<double>(options.steps.windows) * options.steps.drafts;
    options.json ? print_json(options.steps, costs, rejected) : print_table(costs, rejected);
    return 0;
}

}  // namespace

void add_windows_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("windows", "Measure what windows of drafts cost beside plain steps");
    command->footer(kHelp);
    auto options = std::make_shared<Options>();
    WindowsOptions& steps = options->steps;
    command->add_option("--windows", steps.windows, "Sequences in a step")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    command->add_option("--drafts", steps.drafts, "Drafts of each")
        ->check(CLI::Range(1U, proto::kMaxWindowRows - 1))
        ->capture_default_str();
    command->add_option("--accepted", steps.accepted, "Share of right drafts where they are mixed")
        ->check(command_line::number_between(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--samplers", steps.samplers, "Sampler processes")
        ->check(CLI::Range(1U, proto::kMaxSamplers))
        ->capture_default_str();
    command->add_option("--vocab", steps.vocab, "Logits in a row")
        ->check(CLI::Range(256U, proto::kMaxVocab))
        ->capture_default_str();
    command->add_option("--history", steps.history, "Tokens of each prompt")
        ->check(CLI::Range(1U, 250'000U))
        ->capture_default_str();
    command->add_option("--steps", steps.steps, "Steps of each kind")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--croupierd", steps.croupierd,
                        "Path of croupierd (default: in the folder of this program)");
    command->add_flag("--lean", steps.lean, "Lean steps instead of whole rows");
    command->add_flag("--greedy", steps.greedy, "Greedy requests instead of all controls");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
