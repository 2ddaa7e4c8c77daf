#include "bench/controller/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/controller/served.h"
#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "measurement/environment.h"
#include "measurement/row_order.h"
#include "proto/geometry.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Simulates an engine with 64 sequences for each policy: fixed hot sets, and the controller that the daemon uses
with hot_set.adapt. All serve the same trace, alternating every 1,024 draws, so that other load affects all of
them. Times include the draws and the controller.
  stationary   rows in the model's hotness order
  shifting     in the second half of the trace, the hottest ids are exchanged
               with the next ones

Examples:
  croupier bench controller --rows rows.bf16 --hot model.hot)";

struct Options {
    std::vector<std::string> rows;
    std::string hot;
    std::uint32_t vocab = 151936;
    double temperature = 0.8;
    std::uint64_t draws = 1000000;
    std::uint32_t shift = 1024;
    std::uint32_t least = 256;
    std::uint32_t most = 16384;
    std::uint32_t first = 1024;
    bool json = false;
};

struct Policy {
    std::uint32_t hot = 0;  // of the fixed policy
    double draws_per_second = 0.0;
    double controllers_share = 0.0;  // share of the controller's draws with this hot set
};

struct Outcome {
    std::string name;
    std::vector<Policy> fixed;
    double controller = 0.0;  // draws per second
    std::uint64_t moves = 0;
    std::vector<std::uint32_t> sizes;  // chosen by the controller over the trace

    const Policy& best() const {
        return *std::max_element(fixed.begin(), fixed.end(), [](const Policy& a, const Policy& b) {
            return a.draws_per_second < b.draws_per_second;
        });
    }
};

// Exchanges the hottest ids with as many that follow.
std::vector<std::uint32_t> exchanged(std::vector<std::uint32_t> order, std::uint32_t ids) {
    const std::uint32_t blocks = proto::blocks_of(ids);
    if (ids == 0 || std::size_t{blocks} * 2 > order.size()) {
        throw std::runtime_error("--shift is " + std::to_string(ids) + "; allowed: 1 to half of the ids of " +
                                 std::to_string(order.size()) + " blocks of 64");
    }
    std::swap_ranges(order.begin(), order.begin() + blocks, order.begin() + blocks);
    return order;
}

Outcome serve_all(const std::string& name, const Trace& trace, const Options& options,
                  command_line::Progress& progress) {
    constexpr std::uint64_t kTurn = 1024;
    proto::SamplingParams params;
    params.temperature = options.temperature;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    const std::uint32_t least = proto::hot_choice_of(options.least);
    const std::uint32_t most = std::max(least, proto::hot_choice_of(options.most));
    std::vector<std::unique_ptr<Served>> fixed;
    for (std::uint32_t choice = least; choice <= most; ++choice)
        fixed.push_back(std::make_unique<Served>(trace, params, choice));
    Served controlled(trace, params,
                      hot_sets::HotController({least, most, 0.03}, proto::hot_choice_of(options.first)));
    Outcome outcome;
    outcome.name = name;
    progress.begin(name, trace.draws);
    while (controlled.served() < trace.draws) {
        for (auto& each : fixed) each->serve(kTurn);
        controlled.serve(kTurn);
        outcome.sizes.push_back(proto::hot_size(controlled.present()));
        progress.advance(kTurn);
    }
    for (const auto& each : fixed)
        outcome.fixed.push_back({proto::hot_size(each->present()), each->draws_per_second(),
                                 controlled.share_of(each->present())});
    outcome.controller = controlled.draws_per_second();
    outcome.moves = controlled.moves();
    return outcome;
}

nlohmann::json json_of(const Outcome& outcome) {
    nlohmann::json fixed = nlohmann::json::array();
    for (const Policy& each : outcome.fixed)
        fixed.push_back({{"hot", each.hot},
                         {"draws_per_s", each.draws_per_second},
                         {"controllers_share", each.controllers_share}});
    return {{"fixed", fixed},
            {"best_fixed", outcome.best().hot},
            {"controller_draws_per_s", outcome.controller},
            {"controller_over_best_fixed", outcome.controller / outcome.best().draws_per_second},
            {"moves", outcome.moves},
            {"held", outcome.sizes}};
}

// The controller's sizes over the trace, as one line.
std::string journey(const std::vector<std::uint32_t>& sizes) {
    std::string text;
    for (std::size_t begin = 0; begin < sizes.size();) {
        std::size_t end = begin;
        while (end < sizes.size() && sizes[end] == sizes[begin]) ++end;
        text += fmt::format("{}{} ({:.0f} %)", text.empty() ? "" : ", ", sizes[begin],
                            100.0 * static_cast<double>(end - begin) / static_cast<double>(sizes.size()));
        begin = end;
    }
    return text;
}

void print(const Outcome& outcome) {
    std::cout << fmt::format("{}\n{:>12} {:>12} {:>22}\n", outcome.name, "hot set", "draws/s",
                             "% of the controller's");
    for (const Policy& each : outcome.fixed)
        std::cout << fmt::format("{:>12} {:>12.0f} {:>22.1f}\n", each.hot, each.draws_per_second,
                                 100.0 * each.controllers_share);
    std::cout << fmt::format("{:>12} {:>12.0f}   {:.3f} of the best fixed one; sizes: {}\n\n", "controller",
                             outcome.controller, outcome.controller / outcome.best().draws_per_second,
                             journey(outcome.sizes));
}

int run(const Options& options) {
    const measurement::BenchRows rows = measurement::BenchRows::from_file(options.rows, options.vocab);
    const std::vector<std::uint32_t> order = measurement::read_order(options.hot, options.vocab);
    const measurement::BenchRows hot_first = rows.in_order(order);
    const measurement::BenchRows shifted = rows.in_order(exchanged(order, options.shift));
    command_line::Progress progress("draws per policy", 1);
    const Outcome stationary = serve_all("stationary", Trace{{&hot_first}, options.draws}, options, progress);
    const Outcome shifting =
        serve_all("shifting", Trace{{&hot_first, &shifted}, options.draws}, options, progress);
    if (options.json) {
        std::cout << nlohmann::json{{"stationary", json_of(stationary)},
                                    {"shifting", json_of(shifting)},
                                    {"draws", options.draws},
                                    {"shift", options.shift},
                                    {"environment", measurement::environment()}}
                  << "\n";
        return 0;
    }
    print(stationary);
    print(shifting);
    return 0;
}

}  // namespace

void add_controller_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("controller", "Compare an adaptive hot set with fixed ones");
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->rows, "Files with bf16 rows")->required();
    command
        ->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    command->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    command->add_option("--temperature", options->temperature, "Temperature of the draws")
        ->check(command_line::number_between(0.01, 100.0))
        ->capture_default_str();
    command->add_option("--draws", options->draws, "Length of a trace")
        ->check(CLI::Range(std::uint64_t{10000}, std::uint64_t{100000000}))
        ->capture_default_str();
    command->add_option("--shift", options->shift, "Number of hottest ids to exchange")
        ->capture_default_str();
    command->add_option("--least", options->least, "Smallest hot set")->capture_default_str();
    command->add_option("--most", options->most, "Largest hot set")->capture_default_str();
    command->add_option("--first", options->first, "First hot set of the controller")->capture_default_str();
    command->add_flag("--json", options->json, "Print one JSON object");
    command->footer(kHelp);
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
