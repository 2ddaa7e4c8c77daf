#include "tools/shvs_bench/command.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sampler/decide.h"
#include "sampler/philox.h"
#include "shm/hotness_file.h"
#include "tools/decide_bench/bench_cases.h"
#include "tools/decide_bench/bench_rows.h"
#include "tools/environment.h"
#include "tools/shvs_bench/full_port.h"
#include "tools/shvs_bench/paper_shvs.h"
#include "tools/shvs_bench/sizing.h"

namespace croupier::tools {
namespace {

struct Options {
    std::vector<std::string> files;
    std::string hot;
    std::uint32_t vocab = 151936;
    std::uint32_t rounds = 30;
    std::uint32_t history = 1024;
    std::vector<std::uint32_t> sizes;
    bool json = false;
};

using Clock = std::chrono::steady_clock;

struct Mean {
    double sum_us = 0.0;
    std::uint64_t count = 0;

    template <typename Work>
    void time(Work work) {
        const auto begin = Clock::now();
        work();
        sum_us += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        ++count;
    }
    double us() const { return count == 0 ? 0.0 : sum_us / static_cast<double>(count); }
    double per_second() const { return 1e6 / us(); }
};

// A file of `croupier hotset build`, or the bare ids as int32.
std::vector<std::int32_t> load_order(const std::string& path, std::uint32_t vocab) {
    auto loaded = shm::load_hotness(path, vocab);
    if (loaded) return loaded.value().order.ids;
    std::ifstream file(path, std::ios::binary);
    std::vector<std::int32_t> ids(vocab);
    const auto bytes = static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t));
    const bool bare = file.read(reinterpret_cast<char*>(ids.data()), bytes) && file.peek() == EOF;
    if (!bare) throw std::runtime_error(loaded.error().message);
    std::vector<bool> seen(vocab);
    for (const std::int32_t id : ids) {
        if (static_cast<std::uint32_t>(id) >= vocab || seen[static_cast<std::size_t>(id)]) {
            throw std::runtime_error(path + " is no order of " + std::to_string(vocab) +
                                     " ids: " + std::to_string(id) + " is outside it, or there twice");
        }
        seen[static_cast<std::size_t>(id)] = true;
    }
    return ids;
}

struct Variant {
    const char* name;
    const char* what;
    Mean temperature;
    Mean full;
};

class Ablation {
  public:
    Ablation(const Options& options, const BenchRows& rows)
        : options_(options),
          rows_(rows),
          workspace_(rows.vocab()),
          port_(rows.vocab(), false),
          keeper_(rows.vocab(), true) {
        for (const BenchCase& each : bench_cases()) {
            if (each.name == "temperature") temperature_ = each.params;
            if (each.name == "full") full_ = each.params;
        }
        for (std::uint32_t i = 0; i < options.history; ++i) {
            history_.push_back(decide(temperature_, i % rows.count(), i, false, {}));
        }
        state_ = std::make_unique<sampler::SequenceState>(rows.vocab(), options.history + 8);
    }

    std::vector<Variant> run() {
        std::vector<Variant> all = {
            {"full_port", "an engine's sampler on the CPU, all of V at every step", {}, {}},
            {"sequence_parallel", "the same, each sampler counting for its own sequences", {}, {}},
            {"offloaded", "column-wise penalties, truncation first: Croupier without summaries", {}, {}},
            {"summaries", "Croupier with the maxima of tiles", {}, {}}};
        for (std::uint32_t round = 0; round < options_.rounds; ++round) {
            // The ports take a hundred times as long: a few rows of theirs are measure enough.
            for (std::uint32_t row = round % 8; row < rows_.count(); row += 8) {
                time_port(port_, row, all[0]);
                time_port(keeper_, row, all[1]);
            }
            for (const bool summarised : {false, true}) {
                for (const bool full : {false, true})
                    time_ours(full, summarised, round, all[summarised ? 3 : 2]);
            }
        }
        return all;
    }

  private:
    std::span<const std::int32_t> prompt() const { return {history_.data(), history_.size() / 2}; }
    std::span<const std::int32_t> output() const { return std::span(history_).subspan(history_.size() / 2); }

    void time_port(FullPort& port, std::uint32_t row, Variant& variant) {
        port.begin(prompt(), output());
        variant.temperature.time([&] { port.decide(rows_.row(row), temperature_, prompt(), output()); });
        variant.full.time([&] { port.decide(rows_.row(row), full_, prompt(), output()); });
    }

    void time_ours(bool full, bool summarised, std::uint32_t round, Variant& variant) {
        const proto::SamplingParams& params = full ? full_ : temperature_;
        state_->begin(params, {});
        state_->follow(prompt(), output());
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            (full ? variant.full : variant.temperature).time([&] {
                decide(params, row, round * 4096ULL + row, summarised, history_);
            });
        }
    }

    std::int32_t decide(const proto::SamplingParams& params, std::uint32_t row, std::uint64_t draw,
                        bool summarised, std::span<const std::int32_t> history) {
        sampler::Request request;
        request.params = &params;
        request.max_length = options_.history + 8;
        request.prompt = history.first(history.size() / 2);
        request.output = history.subspan(history.size() / 2);
        request.position_shift = static_cast<std::uint32_t>(draw);
        request.random = sampler::random_at(params.seed, request.output.size() + draw, 0);
        if (state_ == nullptr) {
            sampler::SequenceState fresh(rows_.vocab(), 8);
            fresh.begin(params, {});
            return sampler::decide(rows_.view(row, summarised), request, fresh, workspace_).token;
        }
        return sampler::decide(rows_.view(row, summarised), request, *state_, workspace_).token;
    }

    const Options& options_;
    const BenchRows& rows_;
    sampler::Workspace workspace_;
    FullPort port_;
    FullPort keeper_;
    proto::SamplingParams temperature_;
    proto::SamplingParams full_;
    std::vector<std::int32_t> history_;
    std::unique_ptr<sampler::SequenceState> state_;
};

struct MeasuredSize {
    SizedCost cost;
    double accepted = 0.0;  // share of the draws
};

class Sizes {
  public:
    Sizes(const Options& options, const BenchRows& rows) : rows_(rows), rounds_(options.rounds) {
        params_.temperature = 0.8;
        params_.flags = proto::kNoLogprob;
    }

    MeasuredSize measure(std::uint32_t hot) {
        PaperShvs shvs(rows_.vocab(), hot);
        std::vector<PaperShvs::Tail> tails;
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            tails.push_back(shvs.tail_of(rows_.row(row), 1.0 / params_.temperature));
        }
        Mean accepted;
        Mean all;
        double alpha = 0.0;
        for (std::uint32_t round = 0; round < rounds_; ++round) {
            for (std::uint32_t row = 0; row < rows_.count(); ++row) {
                PaperShvs::Drawn drawn{};
                Mean one;
                one.time(
                    [&] { drawn = shvs.draw(rows_.row(row), tails[row], params_, round * 4096ULL + row); });
                for (Mean* mean : {&all, &accepted}) {
                    if (mean == &accepted && !drawn.accepted) continue;
                    mean->sum_us += one.sum_us;
                    ++mean->count;
                }
                alpha += drawn.alpha;
            }
        }
        const auto draws = static_cast<double>(all.count);
        return {{hot, alpha / draws, accepted.us(), all.us()}, static_cast<double>(accepted.count) / draws};
    }

  private:
    const BenchRows& rows_;
    std::uint32_t rounds_;
    proto::SamplingParams params_;
};

struct Results {
    std::vector<Variant> variants;
    std::vector<MeasuredSize> sizes;
    std::vector<SizedCost> costs;
    AffineFit fit;
    std::uint32_t vocab = 0;

    const SizedCost& best() const { return costs[best_measured(costs)]; }
    const SizedCost& expected() const { return costs[best_expected(fit, costs, vocab)]; }
};

void print_json(const Results& results) {
    nlohmann::json variants;
    for (const Variant& each : results.variants) {
        variants[each.name] = {
            {"temperature",
             {{"mean_us", each.temperature.us()}, {"tokens_per_s", each.temperature.per_second()}}},
            {"full", {{"mean_us", each.full.us()}, {"tokens_per_s", each.full.per_second()}}}};
    }
    nlohmann::json grid = nlohmann::json::array();
    for (const MeasuredSize& each : results.sizes) {
        grid.push_back({{"hot", each.cost.hot},
                        {"alpha", each.cost.alpha},
                        {"accepted", each.accepted},
                        {"hot_path_us", each.cost.hot_path_us},
                        {"mean_us", each.cost.mean_us},
                        {"expected_us", results.fit.expected_us(each.cost, results.vocab)},
                        {"tokens_per_s", 1e6 / each.cost.mean_us}});
    }
    std::cout
        << nlohmann::json{{"variants", variants},
                          {"shvs",
                           {{"grid", grid},
                            {"fit",
                             {{"c_us", results.fit.c}, {"c0_us", results.fit.c0}, {"r2", results.fit.r2}}},
                            {"best_expected", results.expected().hot},
                            {"best_measured", results.best().hot},
                            {"throughput_of_expected", results.best().mean_us / results.expected().mean_us}}},
                          {"vocab", results.vocab},
                          {"environment", environment()}}
        << "\n";
}

void print_table(const Results& results) {
    std::cout << fmt::format("{:<18} {:>13} {:>11} {:>13} {:>11}\n", "", "T 0.8, us", "tokens/s", "full, us",
                             "tokens/s");
    for (const Variant& each : results.variants) {
        std::cout << fmt::format("{:<18} {:>13.1f} {:>11.0f} {:>13.1f} {:>11.0f}   {}\n", each.name,
                                 each.temperature.us(), each.temperature.per_second(), each.full.us(),
                                 each.full.per_second(), each.what);
    }
    std::cout << fmt::format("{:<18} {:>13.1f} {:>11.0f} {:>13} {:>11}   the paper's, at its best H = {}\n\n",
                             "shvs", results.best().mean_us, 1e6 / results.best().mean_us, "", "",
                             results.best().hot);
    std::cout << fmt::format("{:>8} {:>8} {:>10} {:>12} {:>10} {:>12}\n", "H", "alpha", "accepted",
                             "hot path us", "mean us", "F(H), us");
    for (const MeasuredSize& each : results.sizes) {
        std::cout << fmt::format("{:>8} {:>8.4f} {:>10.4f} {:>12.2f} {:>10.2f} {:>12.2f}\n", each.cost.hot,
                                 each.cost.alpha, each.accepted, each.cost.hot_path_us, each.cost.mean_us,
                                 results.fit.expected_us(each.cost, results.vocab));
    }
    std::cout << fmt::format(
        "\nhot path = {:.3f} us + {:.3f} ns x H, R2 {:.4f}; best H by the model {}, measured {}\n",
        results.fit.c0, results.fit.c * 1e3, results.fit.r2, results.expected().hot, results.best().hot);
}

void report(const std::string& what) {
    if (::isatty(STDERR_FILENO) != 0) std::cerr << "\r" << what << "            " << std::flush;
}

int run(const Options& options) {
    const BenchRows rows = BenchRows::from_file(options.files, options.vocab);
    const BenchRows hot_first = rows.permuted(load_order(options.hot, options.vocab));
    Results results;
    results.vocab = options.vocab;
    report("the ablation");
    results.variants = Ablation(options, hot_first).run();
    Sizes sizes(options, hot_first);
    for (const std::uint32_t hot : options.sizes) {
        if (hot == 0 || hot > options.vocab) {
            throw std::runtime_error("a hot set of " + std::to_string(hot) + " ids; allowed: 1 to " +
                                     std::to_string(options.vocab));
        }
        report("H = " + std::to_string(hot));
        results.sizes.push_back(sizes.measure(hot));
        results.costs.push_back(results.sizes.back().cost);
    }
    report("");
    results.fit = fit_hot_path(results.costs);
    options.json ? print_json(results) : print_table(results);
    return 0;
}

}  // namespace

void add_shvs_bench(CLI::App& bench, int& status) {
    auto* command =
        bench.add_subcommand("shvs", "The SIMPLE paper's ablation and sizing model on this machine");
    auto options = std::make_shared<Options>();
    options->sizes = {1024, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304};
    command->add_option("--rows", options->files, "Files of bf16 rows, one after another")->required();
    command
        ->add_option("--hot", options->hot, "Hotness order: a file of `croupier hotset build`, or int32 ids")
        ->required();
    command->add_option("--vocab", options->vocab, "Logits a row")->capture_default_str();
    command->add_option("--rounds", options->rounds, "Draws of each row")->capture_default_str();
    command->add_option("--history", options->history, "Tokens of prompt and output")->capture_default_str();
    command->add_option("--sizes", options->sizes, "Hot sets to measure, two or more")
        ->delimiter(',')
        ->expected(2, 64);
    command->add_flag("--json", options->json, "One JSON object");
    command->footer("Example: croupier bench shvs --rows rows0.bf16 --hot model.hotness --json");
    command->callback([options, &status] {
        try {
            status = run(*options);
        } catch (const std::exception& error) {
            std::cerr << "bench shvs: " << error.what() << "\n";
            status = 1;
        }
    });
}

}  // namespace croupier::tools
