#include "bench/shvs/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/shvs/ablation.h"
#include "bench/shvs/beside_paper.h"
#include "bench/shvs/paper_shvs.h"
#include "command_line/progress.h"
#include "hot_sets/sizing.h"
#include "html/page.h"
#include "html/plot.h"
#include "measurement/bench_rows.h"
#include "measurement/environment.h"
#include "measurement/hot_draws.h"
#include "measurement/percentiles.h"
#include "measurement/row_order.h"
#include "measurement/uninterrupted.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Every variant decides the same rows. "x offload." is the ratio to the time of `offloaded`, which scans the
whole row, in the same round (mean of the middle half of the rounds). Croupier's variants alternate within a
round. A hot set affects only unfiltered draws, so with `full` controls variants with and without it are alike.

The last table compares the paper's algorithm (section 5.3) with rng shvs and rng race on requests with
penalties and filters. The paper's algorithm filters within the hot set or the tail, whichever was chosen, not
within the whole vocabulary. Its sums over the tail are not timed, because the paper computes them on a GPU.

Examples:
  croupier bench shvs --rows rows0.bf16 --hot model.hotness --html ablation.html)";

struct Options {
    std::vector<std::string> files;
    std::string hot;
    std::uint32_t vocab = 151936;
    std::uint32_t rounds = 30;
    std::uint32_t history = 1024;
    std::uint32_t at = 0;  // 0: the fastest size
    std::vector<std::uint32_t> sizes;
    std::string page;
    bool json = false;
};

double mean_of(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct MeasuredSize {
    hot_sets::SizedCost cost;
    double accepted = 0.0;  // share of the draws
};

class Sizes {
  public:
    Sizes(const Options& options, const measurement::BenchRows& rows) : rows_(rows), rounds_(options.rounds) {
        params_.temperature = 0.8;
        params_.flags = proto::kNoLogprob;
    }

    MeasuredSize measure(std::uint32_t hot) {
        PaperShvs shvs(rows_.places(), hot == rows_.vocab() ? rows_.places() : hot);
        std::vector<PaperShvs::Tail> tails;
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            tails.push_back(shvs.tail_of(rows_.row(row), 1.0 / params_.temperature));
        }
        std::vector<double> all_us;
        std::vector<double> accepted_us;
        double alpha = 0.0;
        for (std::uint32_t round = 0; round < rounds_; ++round) {
            for (std::uint32_t row = 0; row < rows_.count(); ++row) {
                PaperShvs::Drawn drawn{};
                const auto us = measurement::uninterrupted_us(
                    [&] { drawn = shvs.draw(rows_.row(row), tails[row], params_, round * 4096U + row); });
                if (!us) continue;
                all_us.push_back(*us);
                if (drawn.accepted) accepted_us.push_back(*us);
                alpha += drawn.alpha;
            }
        }
        const auto draws = static_cast<double>(all_us.size());
        return {{hot, alpha / draws, mean_of(accepted_us), mean_of(all_us)},
                static_cast<double>(accepted_us.size()) / draws};
    }

  private:
    const measurement::BenchRows& rows_;
    std::uint32_t rounds_;
    proto::SamplingParams params_;
};

struct Results {
    std::uint32_t hot = 0;  // for the variants with a hot set
    std::vector<Variant> variants;
    std::vector<MeasuredSize> sizes;
    std::vector<hot_sets::SizedCost> costs;
    hot_sets::AffineFit fit;
    std::vector<PaperBeside> beside;
    std::uint32_t vocab = 0;

    const hot_sets::SizedCost& best() const { return costs[hot_sets::best_measured(costs)]; }
    const hot_sets::SizedCost& expected() const {
        return costs[hot_sets::best_expected(model(), costs).place];
    }
    hot_sets::ExpectedCost model() const { return hot_sets::paper_cost(fit, costs, vocab); }
    const Variant& offloaded() const { return variants[2]; }
};

double rate(const std::vector<double>& rounds_us) {
    return 1e6 / measurement::middle_mean(rounds_us);
}

nlohmann::json times_json(const std::vector<double>& rounds_us, const std::vector<double>& offloaded_us) {
    return {{"mean_us", measurement::middle_mean(rounds_us)},
            {"tokens_per_s", rate(rounds_us)},
            {"over_offloaded", paired_ratio(rounds_us, offloaded_us)}};
}

nlohmann::json beside_json(const Results& results) {
    nlohmann::json requests;
    for (const PaperBeside& each : results.beside) {
        nlohmann::json& made = requests[each.request];
        made = {{"what", each.what}, {"accepted", each.accepted}};
        for (const Way& way : each.ways) {
            made["ways"][way.name] = {
                {"mean_us", measurement::middle_mean(way.rounds_us)},
                {"over_paper", paired_ratio(way.rounds_us, each.ways.front().rounds_us)}};
        }
    }
    return {{"paper_hot", results.best().hot}, {"hot", results.hot}, {"requests", requests}};
}

std::string beside_table(const Results& results) {
    std::string text = fmt::format(
        "\nthe paper's algorithm with H = {}, rng shvs with {}; us, and ratio to the paper's\n{:<22}",
        results.best().hot, results.hot, "");
    for (const Way& way : results.beside.front().ways) text += fmt::format(" {:>22}", way.name);
    for (const PaperBeside& each : results.beside) {
        text += fmt::format("\n{:<22}", each.request);
        for (const Way& way : each.ways) {
            text += fmt::format(" {:>14.1f} {:>7.3f}", measurement::middle_mean(way.rounds_us),
                                paired_ratio(way.rounds_us, each.ways.front().rounds_us));
        }
    }
    return text + "\n";
}

void print_json(const Results& results) {
    nlohmann::json variants;
    for (const Variant& each : results.variants) {
        variants[each.name] = {
            {"temperature", times_json(each.temperature_us, results.offloaded().temperature_us)},
            {"full", times_json(each.full_us, results.offloaded().full_us)}};
    }
    const hot_sets::ExpectedCost model = results.model();
    nlohmann::json grid = nlohmann::json::array();
    for (const MeasuredSize& each : results.sizes) {
        grid.push_back({{"hot", each.cost.hot},
                        {"alpha", each.cost.alpha},
                        {"accepted", each.accepted},
                        {"hot_path_us", each.cost.hot_path_us},
                        {"mean_us", each.cost.mean_us},
                        {"expected_us", model.us(each.cost.hot)},
                        {"tokens_per_s", 1e6 / each.cost.mean_us}});
    }
    std::cout
        << nlohmann::json{{"variants", variants},
                          {"hot", results.hot},
                          {"paper_shvs",
                           {{"grid", grid},
                            {"fit",
                             {{"c_us", results.fit.c}, {"c0_us", results.fit.c0}, {"r2", results.fit.r2}}},
                            {"best_expected", results.expected().hot},
                            {"best_measured", results.best().hot},
                            {"throughput_of_expected", results.best().mean_us / results.expected().mean_us}}},
                          {"beside_paper", beside_json(results)},
                          {"vocab", results.vocab},
                          {"environment", measurement::environment()}}
        << "\n";
}

std::string ablation_table(const Results& results) {
    std::string text = fmt::format("{:<18} {:>11} {:>10} {:>10} {:>11} {:>10} {:>10}\n", "", "T 0.8, us",
                                   "tokens/s", "x offload.", "full, us", "tokens/s", "x offload.");
    for (const Variant& each : results.variants) {
        text +=
            fmt::format("{:<18} {:>11.1f} {:>10.0f} {:>10.3f} {:>11.1f} {:>10.0f} {:>10.3f}   {}\n",
                        each.name, measurement::middle_mean(each.temperature_us), rate(each.temperature_us),
                        paired_ratio(each.temperature_us, results.offloaded().temperature_us),
                        measurement::middle_mean(each.full_us), rate(each.full_us),
                        paired_ratio(each.full_us, results.offloaded().full_us), each.what);
    }
    return text + fmt::format("{:<18} {:>11.1f} {:>10.0f}   the paper's algorithm at its best H = {}\n",
                              "paper_shvs", results.best().mean_us, 1e6 / results.best().mean_us,
                              results.best().hot);
}

std::string sizes_table(const Results& results) {
    std::string text = fmt::format("the paper's algorithm:\n{:>8} {:>8} {:>10} {:>12} {:>10} {:>12}\n", "H",
                                   "alpha", "accepted", "hot path us", "mean us", "F(H), us");
    const hot_sets::ExpectedCost model = results.model();
    for (const MeasuredSize& each : results.sizes) {
        text += fmt::format("{:>8} {:>8.4f} {:>10.4f} {:>12.2f} {:>10.2f} {:>12.2f}\n", each.cost.hot,
                            each.cost.alpha, each.accepted, each.cost.hot_path_us, each.cost.mean_us,
                            model.us(each.cost.hot));
    }
    return text +
           fmt::format(
               "\nhot path: {:.3f} us + {:.3f} ns x H, R2 {:.4f}; best H: {} by the model, {} measured\n",
               results.fit.c0, results.fit.c * 1e3, results.fit.r2, results.expected().hot,
               results.best().hot);
}

std::string bars_page(const Results& results) {
    std::vector<html::Bar> temperature;
    std::vector<html::Bar> full;
    for (const Variant& each : results.variants) {
        temperature.push_back({"T 0.8", each.name, rate(each.temperature_us), html::Ink::first});
        full.push_back({"full", each.name, rate(each.full_us), html::Ink::second});
    }
    temperature.push_back({"T 0.8", "paper_shvs", 1e6 / results.best().mean_us, html::Ink::first});
    return html::page("Effect of each step",
                      "<h2>T 0.8, no filter</h2>\n" +
                          html::logarithmic_bars("tokens/s of one sampler, logarithmic", temperature) +
                          "<h2>Penalties, top-k, top-p and min-p</h2>\n" +
                          html::logarithmic_bars("tokens/s of one sampler, logarithmic", full) + "<pre>" +
                          html::escaped(ablation_table(results) + "\n" + sizes_table(results)) + "</pre>\n");
}

void check_sizes(const Options& options) {
    for (const std::uint32_t hot : options.sizes) {
        if (hot == 0 || hot > options.vocab) {
            throw std::runtime_error("a hot set of " + std::to_string(hot) + " ids; allowed: 1 to " +
                                     std::to_string(options.vocab));
        }
    }
}

std::uint32_t fastest_size(const Options& options, const measurement::BenchRows& hot_first,
                           command_line::Progress& progress) {
    proto::SamplingParams params;
    params.temperature = 0.8;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    progress.begin("choosing the hot set", options.rounds);
    const std::vector<std::uint32_t> sizes = measurement::sizes_to_try(options.vocab);
    const auto draws = measurement::measure_draws(hot_first, params, sizes, options.rounds, progress);
    return std::min_element(draws.begin(), draws.end(),
                            [](const auto& a, const auto& b) { return a.mean_us() < b.mean_us(); })
        ->hot;
}

int run(const Options& options) {
    check_sizes(options);
    command_line::Progress progress("rounds", 1);
    const measurement::BenchRows rows = measurement::BenchRows::from_file(options.files, options.vocab);
    const measurement::BenchRows hot_first =
        rows.in_order(measurement::read_order(options.hot, options.vocab));
    Results results;
    results.vocab = options.vocab;
    results.hot = options.at > 0 ? measurement::whole_blocks({options.at}, options.vocab).front()
                                 : fastest_size(options, hot_first, progress);
    progress.begin("ablation", 2ULL * options.rounds);
    results.variants =
        run_ablation({options.rounds, options.history, results.hot}, rows, hot_first, progress);
    Sizes sizes(options, hot_first);
    progress.begin("sizes of the paper's algorithm", options.sizes.size() * options.rounds);
    for (const std::uint32_t hot : options.sizes) {
        results.sizes.push_back(sizes.measure(hot));
        results.costs.push_back(results.sizes.back().cost);
        progress.advance(options.rounds);
    }
    results.fit = hot_sets::fit_hot_path(results.costs);
    results.beside = run_beside_paper({options.rounds, options.history, results.best().hot, results.hot},
                                      hot_first, progress);
    if (!options.page.empty()) html::write_page(options.page, bars_page(results));
    if (options.json) {
        print_json(results);
    } else {
        std::cout << ablation_table(results) << "\n" << sizes_table(results) << beside_table(results);
    }
    return 0;
}

}  // namespace

void add_shvs_bench(CLI::App& bench, int& status) {
    auto* command =
        bench.add_subcommand("shvs", "Repeat the SIMPLE paper's ablation and sizing model on this machine");
    auto options = std::make_shared<Options>();
    options->sizes = {1024, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304};
    command->add_option("--rows", options->files, "Files with bf16 rows")->required();
    command
        ->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    command->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    command->add_option("--rounds", options->rounds, "Draws per row")->capture_default_str();
    command->add_option("--history", options->history, "Length of prompt and output in tokens")
        ->capture_default_str();
    command
        ->add_option("--at", options->at,
                     "Size of the hot set (default: the fastest of the sizes of `croupier hotset size`)")
        ->check(CLI::PositiveNumber);
    command->add_option("--sizes", options->sizes, "Sizes for the paper's algorithm, ascending, two or more")
        ->delimiter(',')
        ->expected(2, 64);
    command->add_option("--html", options->page, "Write an HTML page with a bar chart");
    command->add_flag("--json", options->json, "Print one JSON object");
    command->footer(kHelp);
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
