#include "bench/rounding/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/rounding/moves.h"
#include "command_line/choices.h"
#include "command_line/number_between.h"
#include "measurement/environment.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(The logits of a prompt differ slightly between batches, kernels and GPUs. This measures how often the token
then differs, with the same seed and position. Each row is decided three times with the same randoms: unchanged
(fp32), with noise added to every logit (fp32), and with the noisy logits rounded to bf16.
  noise     compares the first two decisions
  rounding  compares the last two decisions
`distance` is the total variation distance of the two exact distributions (mean over the rows): the lower bound
for any method of drawing. `x` is `changed` divided by `distance`; `+-` is the standard deviation of `changed`.

Examples:
  croupier bench rounding --rows rows0.bf16 rows1.bf16
  croupier bench rounding --rows rows0.bf16 --sigma 0.001 --draws 200000 --json
  croupier bench rounding --rows rows0.bf16 --rng sglang)";

struct Options {
    std::vector<std::string> files;
    std::uint32_t vocab = 151936;
    std::uint32_t draws = 20000;
    double sigma = 0.01;
    std::vector<double> temperatures = {0.6, 0.8, 1.0};
    proto::Rng rng = proto::Rng::race;
    bool json = false;
};

struct Setting {
    std::string filter;
    proto::SamplingParams params;
};

std::vector<Setting> settings_of(const Options& options) {
    std::vector<Setting> settings;
    for (const double temperature : options.temperatures) {
        proto::SamplingParams params;
        params.temperature = temperature;
        params.rng = options.rng;
        params.flags = proto::kNoLogprob;
        settings.push_back({"none", params});
        settings.push_back({"top_p 0.95", params});
        settings.back().params.top_p = 0.95;
        settings.push_back({"top_k 50", params});
        settings.back().params.top_k = 50;
    }
    return settings;
}

double deviation_of(const Moved& moved, std::uint64_t draws) {
    return std::sqrt(moved.changed * (1.0 - moved.changed) / static_cast<double>(draws));
}

nlohmann::json to_json(const Moved& moved, std::uint64_t draws) {
    return {{"changed", moved.changed},
            {"deviation", deviation_of(moved, draws)},
            {"total_variation", moved.total_variation},
            {"ratio", moved.ratio()}};
}

void print_json(const Options& options, const std::vector<Setting>& settings,
                const std::vector<MovesOfSetting>& results) {
    nlohmann::json all = nlohmann::json::array();
    for (std::size_t i = 0; i < settings.size(); ++i) {
        all.push_back({{"temperature", settings[i].params.temperature},
                       {"filter", settings[i].filter},
                       {"draws", results[i].draws},
                       {"noise", to_json(results[i].noise, results[i].draws)},
                       {"rounding", to_json(results[i].rounding, results[i].draws)}});
    }
    std::cout << nlohmann::json{{"settings", all},
                                {"sigma", options.sigma},
                                {"environment", measurement::environment()}}
              << "\n";
}

void print_table(const Options& options, const std::vector<Setting>& settings,
                 const std::vector<MovesOfSetting>& results) {
    const auto columns = [](const Moved& moved, std::uint64_t draws) {
        return fmt::format("{:>9.3f} {:>6.3f} {:>9.3f} {:>6.2f}", 100.0 * moved.changed,
                           100.0 * deviation_of(moved, draws), 100.0 * moved.total_variation, moved.ratio());
    };
    std::cout << fmt::format("{} draws per line; changed and distance in %\n\n", results.front().draws)
              << fmt::format("{:<17}   {:^33}   {:^33}\n", "", fmt::format("noise of {}", options.sigma),
                             "rounding to bf16")
              << fmt::format("{:<5} {:<11}   {:>9} {:>6} {:>9} {:>6}   {:>9} {:>6} {:>9} {:>6}\n", "T",
                             "filter", "changed", "+-", "distance", "x", "changed", "+-", "distance", "x");
    for (std::size_t i = 0; i < settings.size(); ++i) {
        std::cout << fmt::format("{:<5} {:<11}   {}   {}\n", settings[i].params.temperature,
                                 settings[i].filter, columns(results[i].noise, results[i].draws),
                                 columns(results[i].rounding, results[i].draws));
    }
}

int run(const Options& options) {
    const std::vector<Setting> settings = settings_of(options);
    const measurement::BenchRows rows = measurement::BenchRows::from_file(options.files, options.vocab);
    MovesOptions moves{options.draws, options.sigma, {}};
    for (const Setting& each : settings) moves.settings.push_back(each.params);
    command_line::Progress progress("rows' settings", 1);
    progress.begin("drawing", settings.size() * rows.count());
    const std::vector<MovesOfSetting> results = measure_moves(rows, moves, progress);
    options.json ? print_json(options, settings, results) : print_table(options, settings, results);
    return 0;
}

}  // namespace

void add_rounding_bench(CLI::App& bench, int& status) {
    auto* command =
        bench.add_subcommand("rounding", "Measure how many tokens change if logits change a little");
    command->footer(kHelp);
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files, "Files with bf16 rows")->required();
    command->add_option("--vocab", options->vocab, "Logits per row")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--sigma", options->sigma, "Standard deviation of the noise")
        ->check(command_line::number_between(1e-9, 10.0))
        ->capture_default_str();
    command->add_option("--draws", options->draws, "Draws per temperature and filter, over all rows")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--temperatures", options->temperatures, "Temperatures to measure")
        ->check(command_line::number_between(0.01, 100.0))
        ->delimiter(',')
        ->capture_default_str();
    command_line::add_choice(*command, "--rng", options->rng,
                             {{"race", proto::Rng::race},
                              {"shvs", proto::Rng::shvs},
                              {"sglang", proto::Rng::sglang},
                              {"vllm", proto::Rng::vllm}},
                             "Random number generator of the draws");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
