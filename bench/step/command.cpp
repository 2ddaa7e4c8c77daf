#include "bench/step/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/step/steps.h"
#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "measurement/environment.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(A step ends with its last column. One thread decides a step of `full` requests (penalties, top_k 50, top_p,
min_p; temperature 0.8), then the same step with one request replaced by another case, alternating between the
two; `x` is the ratio of their p50. If several samplers share a step, the one with the slow request decides
when it ends: `share` is the same measurement with the columns of one sampler. Times are CPU times of the
thread, so that other load has little effect. `croupier bench decide --list` lists the cases.

Examples:
  croupier bench step --rows rows0.bf16 rows1.bf16
  croupier bench step --rows rows0.bf16 --cases topp,typical,sglang \
      --summaries --json)";

struct Options {
    std::vector<std::string> files;
    std::uint32_t vocab = 151936;
    std::uint32_t columns = 256;
    std::uint32_t samplers = 14;
    std::uint32_t steps = 20;
    std::string history = "1k";
    std::vector<std::string> cases = {"all"};
    std::vector<double> temperatures = {1.0};
    bool summaries = false;
    bool json = false;

    std::uint32_t share() const { return (columns + samplers - 1) / samplers; }
};

struct Slowed {
    std::string name;
    std::string what;
    double temperature;
    StepPair step;
    StepPair share;
};

std::vector<Slowed> measure(const Options& options) {
    const std::vector<BenchCase> cases = chosen_cases(options.cases);
    const std::uint32_t history = history_of(options.history);
    const measurement::BenchRows rows = options.files.empty()
                                            ? measurement::BenchRows::generated(options.vocab, 40)
                                            : measurement::BenchRows::from_file(options.files, options.vocab);
    const std::vector<std::int32_t> text = written_text(rows, history + options.columns);
    Steps steps(rows, text, history, options.columns);
    command_line::Progress progress("cases", 1);
    progress.begin("deciding steps", cases.size() * options.temperatures.size());
    std::vector<Slowed> all;
    for (const BenchCase& each : cases) {
        for (const double temperature : options.temperatures) {
            const double chosen = each.params.temperature == 0.0 ? 0.0 : temperature;
            const bool again = chosen == 0.0 && temperature != options.temperatures.front();
            if (!again) {
                const CaseRequest slow(each, rows.vocab(), chosen);
                const auto measured = [&](std::uint32_t columns) {
                    // A share is shorter than a step, so it needs more repetitions for the same precision.
                    const std::uint32_t times = options.steps * options.columns / columns;
                    return steps.measure(slow, columns, times, options.summaries);
                };
                all.push_back(
                    {each.name, each.what, chosen, measured(options.columns), measured(options.share())});
            }
            progress.advance(1);
        }
    }
    return all;
}

nlohmann::json to_json(const StepPair& pair) {
    return {{"full_us", to_json(pair.alike)}, {"with_one_us", to_json(pair.mixed)}, {"ratio", pair.ratio()}};
}

void print_json(const Options& options, const std::vector<Slowed>& results) {
    nlohmann::json all = nlohmann::json::array();
    for (const Slowed& each : results) {
        all.push_back({{"case", each.name},
                       {"what", each.what},
                       {"temperature", each.temperature},
                       {"step", to_json(each.step)},
                       {"share", to_json(each.share)}});
    }
    std::cout << nlohmann::json{{"cases", all},
                                {"columns", options.columns},
                                {"share_columns", options.share()},
                                {"steps", options.steps},
                                {"summaries", options.summaries},
                                {"environment", measurement::environment()}}
              << "\n";
}

void print_table(const Options& options, const std::vector<Slowed>& results) {
    std::cout << fmt::format("{} steps of each kind, {} columns, {} in a share; p50 in microseconds\n\n",
                             options.steps, options.columns, options.share())
              << fmt::format("{:<22} {:>4} {:>9} {:>9} {:>7}   {:>9} {:>9} {:>7}\n", "", "T", "full",
                             "with one", "x", "share", "with one", "x");
    for (const Slowed& each : results) {
        std::cout << fmt::format("{:<22} {:>4} {:>9.1f} {:>9.1f} {:>7.3f}   {:>9.1f} {:>9.1f} {:>7.3f}\n",
                                 each.name, each.temperature, each.step.alike.p50, each.step.mixed.p50,
                                 each.step.ratio(), each.share.alike.p50, each.share.mixed.p50,
                                 each.share.ratio());
    }
}

int run(const Options& options) {
    const std::vector<Slowed> results = measure(options);
    options.json ? print_json(options, results) : print_table(options, results);
    return 0;
}

}  // namespace

void add_step_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("step", "Measure how much one slow request delays a step");
    command->footer(kHelp);
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files, "Files with bf16 rows (default: generated rows)");
    command->add_option("--vocab", options->vocab, "Logits per row")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--columns", options->columns, "Requests per step")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    command->add_option("--samplers", options->samplers, "Samplers that share a step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--steps", options->steps, "Steps of each kind and case")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--history", options->history, "Tokens of prompt and output")->capture_default_str();
    command->add_option("--cases", options->cases, "Cases that replace one request")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--temperatures", options->temperatures, "Temperatures of that request")
        ->check(command_line::number_between(0.01, 100.0))
        ->delimiter(',')
        ->capture_default_str();
    command->add_flag("--summaries", options->summaries, "Use the writer's summaries");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
