#include "bench/fairness/command.h"

#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/fairness/neighbours.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Times a small session with one column per step, first alone, and then together with a large session whose slots
are all busy with `full` requests (penalties, top-k 50, top-p 0.95, min-p 0.02, temperature 0.8). Both use a
daemon that this command starts. With --dearest the large session has the most expensive columns: fp32 rows,
dynamic temperature, typical-p and a support of 65,536 tokens.

The time of a step is from its last tile to its decision. The engine of the large session runs in this process,
so with too few cores for the samplers and both engines, the ratio includes waiting for a core.

Examples:
  croupier bench fairness
  croupier bench fairness --samplers 14 --vocab 151936 --json
  croupier bench fairness --dearest --columns 16 --slots 2 --steps 200 \
      --vocab 262144)";

struct FairnessOptions {
    Neighbours neighbours;
    bool json = false;
};

int run(const FairnessOptions& options) {
    const StepTimes times = time_neighbours(options.neighbours);
    const measurement::Percentiles alone = measurement::percentiles_us(times.alone_ns);
    const measurement::Percentiles beside = measurement::percentiles_us(times.beside_ns);
    if (options.json) {
        std::cout << nlohmann::json{{"alone_us", to_json(alone)},
                                    {"beside_us", to_json(beside)},
                                    {"p99_ratio", beside.p99 / alone.p99},
                                    {"large_columns_decided", times.large_columns},
                                    {"dearest", options.neighbours.dearest},
                                    {"samplers", options.neighbours.samplers},
                                    {"vocab", options.neighbours.vocab},
                                    {"columns", options.neighbours.columns},
                                    {"slots", options.neighbours.slots},
                                    {"steps", options.neighbours.steps},
                                    {"environment", measurement::environment()}}
                  << "\n";
        return 0;
    }
    const auto line = [](const std::string& what, const measurement::Percentiles& of) {
        return fmt::format("{:<44} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f}\n", what, of.p50, of.p99, of.p999,
                           of.max);
    };
    std::cout << fmt::format("{:<44} {:>8} {:>8} {:>8} {:>9}\n", "microseconds", "p50", "p99", "p99.9", "max")
              << line("one column, alone", alone)
              << line(fmt::format("with {} x {} {}", options.neighbours.slots, options.neighbours.columns,
                                  options.neighbours.dearest ? "most expensive" : "`full`"),
                      beside)
              << fmt::format(
                     "\np99: {:.2f} times as long; {} columns of the large session were decided meanwhile\n",
                     beside.p99 / alone.p99, times.large_columns);
    return 0;
}

}  // namespace

void add_fairness_bench(CLI::App& bench, int& status) {
    auto* command =
        bench.add_subcommand("fairness", "Measure how long a small session waits for a large one");
    command->footer(kHelp);
    auto options = std::make_shared<FairnessOptions>();
    Neighbours& shape = options->neighbours;
    command->add_option("--samplers", shape.samplers, "Number of samplers")->capture_default_str();
    command->add_option("--vocab", shape.vocab, "Vocabulary of both sessions")->capture_default_str();
    command->add_option("--columns", shape.columns, "Columns per step of the large session")
        ->capture_default_str();
    command->add_option("--slots", shape.slots, "Steps in flight of the large session")
        ->capture_default_str();
    command->add_option("--steps", shape.steps, "Steps of the small session, alone and with the large one")
        ->capture_default_str();
    command->add_flag("--dearest", shape.dearest, "Use the most expensive columns in the large session");
    command->add_option("--croupierd", shape.croupierd,
                        "Path of croupierd (default: in the folder of this program)");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
