#include "bench/fairness/command.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/fairness/neighbours.h"
#include "command_line/choices.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Times an ordinary session (top-k 50, top-p 0.95, min-p 0.02, penalties, temperature 0.8), first alone, and then
beside a neighbour that keeps all of its steps in flight. The neighbour is first as ordinary, and then asks for the
dearest requests of each kind that the default configuration admits. All use a daemon that this command starts.

The timed session's logits come every --period-us. The time of a step is from its last tile to its decision. The
neighbour's engine runs in this process, so with too few cores for the samplers and both engines, the ratio includes
waiting for a core.

Examples:
  croupier bench fairness
  croupier bench fairness --columns 64 --kinds adaptive
  croupier bench fairness --samplers 14 --json)";

struct FairnessOptions {
    std::string croupierd;  // empty: in the folder of this program
    std::uint32_t samplers = 1;
    std::uint32_t vocab = 151936;
    std::uint32_t steps = 200;
    std::uint32_t period_us = 5000;
    Shape timed;
    Shape neighbour{8, 2};
    std::vector<std::string> kinds;  // none: all
    bool json = false;

    bool chosen(const std::string& kind) const {
        return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    }
};

struct Timed {
    std::string name;
    std::string what;
    measurement::Percentiles us;
    double neighbour_columns = 0.0;
};

Timed timed(const std::string& name, const std::string& what, StepTimes times) {
    return {name, what, measurement::percentiles_us(std::move(times.ns)), times.neighbour_columns};
}

// Alone, beside an ordinary neighbour, and beside those that were chosen.
std::vector<Timed> time_all(const FairnessOptions& options) {
    testing::OwnDaemon daemon(
        {options.croupierd, "bench-" + std::to_string(::getpid()), testing::private_shm_dir(),
         fmt::format(
             "samplers: {{count: {}}}\nsessions: {{max_batch: {}, max_sequences: {}, max_vocab: {}}}\n",
             options.samplers, proto::kMaxBatch, proto::kMaxSequences, proto::kMaxVocab)});
    daemon.start();
    daemon.await_ready();
    const Neighbours neighbours(daemon, options.vocab, options.timed);
    const Timing timing{options.steps, std::chrono::microseconds(options.period_us)};
    std::vector<Timed> all = {timed("alone", "no neighbour", neighbours.time_alone(timing))};
    for (const NeighbourKind& kind : neighbour_kinds()) {
        const bool ordinary = all.size() == 1;
        if (!ordinary && !options.chosen(kind.name)) continue;
        all.push_back(timed(kind.name, kind.what, neighbours.time_beside(kind, options.neighbour, timing)));
    }
    daemon.stop();
    return all;
}

nlohmann::json to_json(const Shape& shape) {
    return {{"columns", shape.columns}, {"slots", shape.slots}};
}

void print_json(const FairnessOptions& options, const std::vector<Timed>& all) {
    nlohmann::json runs = nlohmann::json::array();
    for (const Timed& each : all) {
        runs.push_back({{"neighbour", each.name},
                        {"what", each.what},
                        {"us", measurement::to_json(each.us)},
                        {"neighbour_columns_a_period", each.neighbour_columns}});
    }
    std::cout << nlohmann::json{{"runs", runs},
                                {"samplers", options.samplers},
                                {"vocab", options.vocab},
                                {"timed", to_json(options.timed)},
                                {"neighbour", to_json(options.neighbour)},
                                {"steps", options.steps},
                                {"period_us", options.period_us},
                                {"environment", measurement::environment()}}
              << "\n";
}

void print_table(const std::vector<Timed>& all) {
    const measurement::Percentiles& ordinary = all[1].us;
    std::cout << fmt::format("{:<10} {:>9} {:>9} {:>9}  {:>8} {:>8}  {:>9}\n", "neighbour", "p50 us", "p99",
                             "max", "p50 x", "p99 x", "columns");
    for (const Timed& each : all) {
        std::cout << fmt::format("{:<10} {:>9.1f} {:>9.1f} {:>9.1f}  {:>8.2f} {:>8.2f}  {:>9.1f}  {}\n",
                                 each.name, each.us.p50, each.us.p99, each.us.max, each.us.p50 / ordinary.p50,
                                 each.us.p99 / ordinary.p99, each.neighbour_columns, each.what);
    }
    std::cout << "\nx: times as long as beside an ordinary neighbour; columns: of the neighbour, decided in "
                 "a period\n";
}

int run(const FairnessOptions& options) {
    const std::vector<Timed> all = time_all(options);
    if (options.json) {
        print_json(options, all);
    } else {
        print_table(all);
    }
    return 0;
}

}  // namespace

void add_fairness_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("fairness", "Measure how long a session waits for a neighbour");
    command->footer(kHelp);
    auto options = std::make_shared<FairnessOptions>();
    std::vector<std::string> names;
    for (const NeighbourKind& kind : neighbour_kinds()) names.push_back(kind.name);
    command->add_option("--samplers", options->samplers, "Number of samplers")->capture_default_str();
    command->add_option("--vocab", options->vocab, "Vocabulary of both sessions")->capture_default_str();
    command->add_option("--own-columns", options->timed.columns, "Columns per step of the timed session")
        ->capture_default_str();
    command->add_option("--columns", options->neighbour.columns, "Columns per step of the neighbour")
        ->capture_default_str();
    command->add_option("--slots", options->neighbour.slots, "Steps in flight of the neighbour")
        ->capture_default_str();
    command->add_option("--steps", options->steps, "Steps of the timed session beside each neighbour")
        ->capture_default_str();
    command->add_option("--period-us", options->period_us, "Microseconds between steps of the timed session")
        ->capture_default_str();
    command->add_option("--kinds", options->kinds, "Neighbours beside the ordinary one (default: all)")
        ->delimiter(',')
        ->check(command_line::one_of(names));
    command->add_option("--croupierd", options->croupierd,
                        "Path of croupierd (default: in the folder of this program)");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
