#include "bench/tvd/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/tvd/exactness.h"
#include "bench/tvd/truncated.h"
#include "measurement/environment.h"
#include "measurement/hot_draws.h"
#include "measurement/row_order.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(A step is a row with temperature 0.6, 0.8, 1.0 or 1.2, with and without penalties and biases over a random
history, with and without a mask; 16 steps per row cover all combinations. From each step the sampler draws
--draws tokens with each hot set; counts are added over the steps, as in section 7.6 of the SIMPLE paper. The
reference is a softmax in double precision that shares no code with the sampler.

The total variation distance of a finite number of draws is never 0. So the same number of draws is repeatedly
taken from the reference with another generator: the mean of their distances is the floor, and +- is their
standard deviation. `above` is distance - floor, in percentage points.
  by token   distance over all tokens, as in the paper; with 151,936 tokens the
             floor is high
  by cell    distance over 64 cells of equal mass per step, hottest blocks
             first: the floor is low, so that a bias towards the hot set or
             the tail is visible
The line `answered` compares the distribution that the sampler returns (`support`) with the reference, without
draws.

--truncated compares tokens instead: decisions with random filters, temperatures, penalties, biases and masks,
each with and without summaries and with and without a hot set, must equal the reference over the whole row.

Examples:
  croupier bench tvd --rows rows.bf16 --hot model.hot
  croupier bench tvd --rows rows.bf16 --hot model.hot --truncated

docs/hotsets.md is the reference.)";

struct Options {
    std::vector<std::string> rows;
    std::string hot;
    std::uint32_t vocab = 151936;
    std::uint32_t steps = 1280;
    std::uint32_t draws = 1000;
    std::uint32_t decisions = 80;
    std::vector<std::uint32_t> sizes;
    bool truncated = false;
    bool json = false;
};

std::string line(const std::string& name, double tail, double proposals, const Distance& distance,
                 const Noise& by_token, const Noise& by_cell) {
    const auto judged = [](double value, const Noise& noise) {
        return fmt::format("{:>9.4f} {:>8.4f} {:>8.4f} {:>+8.4f}", 100.0 * value, 100.0 * noise.mean,
                           100.0 * noise.deviation, 100.0 * (value - noise.mean));
    };
    return fmt::format("{:>8} {:>7.4f} {:>9.2f}  {}  {}\n", name, tail, proposals,
                       judged(distance.by_token, by_token), judged(distance.by_cell, by_cell));
}

void print_table(const Options& options, const Exactness& result) {
    std::string text = fmt::format("{} steps, {} draws per step and hot set; distances in %\n\n",
                                   options.steps, options.draws);
    text += fmt::format("{:>8} {:>7} {:>9}  {:>9} {:>8} {:>8} {:>8}  {:>9} {:>8} {:>8} {:>8}\n", "H", "tail",
                        "proposals", "by token", "floor", "+-", "above", "by cell", "floor", "+-", "above");
    double tail = 0.0;
    double proposals = 0.0;
    const auto sizes = static_cast<double>(result.sizes.size());
    for (const SizedDistance& each : result.sizes) {
        text += line(each.hot == 0 ? "row's" : std::to_string(each.hot), each.tail, each.proposals,
                     each.distance, result.token_noise, result.cell_noise);
        tail += each.tail / sizes;
        proposals += each.proposals / sizes;
    }
    text += line("all", tail, proposals, result.in_all, result.token_noise_in_all, result.cell_noise_in_all);
    std::cout << text
              << fmt::format("\nanswered, without draws: mean {:.2g}%, largest of a step {:.2g}%\n",
                             100.0 * result.mean_answered, 100.0 * result.most_answered);
}

nlohmann::ordered_json noise_json(double distance, const Noise& noise) {
    return {{"distance", distance},
            {"floor", noise.mean},
            {"deviation", noise.deviation},
            {"above", distance - noise.mean}};
}

void print_json(const Options& options, const Exactness& result) {
    nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
    for (const SizedDistance& each : result.sizes) {
        sizes.push_back({{"hot", each.hot},
                         {"tail", each.tail},
                         {"proposals", each.proposals},
                         {"by_token", noise_json(each.distance.by_token, result.token_noise)},
                         {"by_cell", noise_json(each.distance.by_cell, result.cell_noise)}});
    }
    const nlohmann::ordered_json all = {
        {"steps", options.steps},
        {"draws", options.draws},
        {"sizes", sizes},
        {"all",
         {{"by_token", noise_json(result.in_all.by_token, result.token_noise_in_all)},
          {"by_cell", noise_json(result.in_all.by_cell, result.cell_noise_in_all)}}},
        {"answered", {{"mean", result.mean_answered}, {"largest", result.most_answered}}},
        {"environment", measurement::environment()}};
    std::cout << all.dump() << "\n";
}

void print_agreement(const Options& options, const Agreement& result) {
    if (options.json) {
        const nlohmann::ordered_json all = {{"steps", options.steps},
                                            {"decisions", result.decisions},
                                            {"compared", result.compared},
                                            {"by_reference", result.by_reference},
                                            {"different", result.different},
                                            {"first_difference", result.first_difference},
                                            {"environment", measurement::environment()}};
        std::cout << all.dump() << "\n";
        return;
    }
    std::cout << fmt::format(
        "{} truncated decisions of {} steps, each in 4 variants: {} of {} tokens differ\n", result.decisions,
        options.steps, result.different, result.compared);
    if (result.different > 0) std::cout << "first: " << result.first_difference << "\n";
}

std::vector<std::uint32_t> judged_sizes(const Options& options) {
    if (!options.sizes.empty()) return measurement::whole_blocks(options.sizes, options.vocab);
    std::vector<std::uint32_t> sizes = {0, options.vocab};
    for (std::uint32_t hot = 1024; hot < options.vocab; hot *= 4) sizes.push_back(hot);
    return measurement::whole_blocks(sizes, options.vocab);
}

int run(const Options& options) {
    const std::vector<std::uint32_t> sizes = judged_sizes(options);
    const measurement::BenchRows rows = measurement::BenchRows::from_file(options.rows, options.vocab)
                                            .in_order(measurement::read_order(options.hot, options.vocab));
    command_line::Progress progress("steps", 1);
    if (options.truncated) {
        progress.begin("comparing tokens", options.steps);
        const Agreement result = compare_truncated(rows, options.steps, options.decisions, sizes, progress);
        print_agreement(options, result);
        return result.different == 0 ? 0 : 1;
    }
    progress.begin("drawing", options.steps);
    const Exactness result = judge_draws(rows, {options.steps, options.draws, sizes}, progress);
    options.json ? print_json(options, result) : print_table(options, result);
    return 0;
}

}  // namespace

void add_tvd_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("tvd", "Check that draws follow the exact distribution");
    command->footer(kHelp);
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->rows, "Files with bf16 rows")->required();
    command
        ->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    command->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    command->add_option("--steps", options->steps, "Number of steps")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--draws", options->draws, "Draws per step and hot set")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        ->add_option("--decisions", options->decisions,
                     "Decisions per step with --truncated, each in four variants")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        ->add_option("--sizes", options->sizes,
                     "Sizes of hot sets; 0: each row chooses its blocks (default: 0, and 1024 to --vocab in "
                     "steps of 4x)")
        ->delimiter(',')
        ->expected(1, 64);
    command->add_flag("--truncated", options->truncated, "Compare tokens of filtered decisions");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
