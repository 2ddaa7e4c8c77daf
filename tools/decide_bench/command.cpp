#include "tools/decide_bench/command.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "proto/philox.h"
#include "sampler/decide.h"
#include "tools/decide/target.h"
#include "tools/decide_bench/bench_cases.h"
#include "tools/decide_bench/bench_rows.h"
#include "tools/decide_bench/read_once.h"
#include "tools/environment.h"
#include "tools/percentiles.h"

namespace croupier::tools {
namespace {

struct Options {
    std::vector<std::string> files;
    std::uint32_t vocab = 151936;
    std::uint32_t rows = 40;
    std::uint32_t rounds = 40;
    std::uint32_t history = 1024;
    std::vector<std::string> cases;
    std::string target;
    bool json = false;
};

using Clock = std::chrono::steady_clock;

template <typename Work>
std::uint64_t nanoseconds_of(Work work) {
    const auto begin = Clock::now();
    work();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

struct Measured {
    std::string name;
    std::string what;
    Percentiles plain;
    Percentiles summarised;
    std::set<std::string> paths;
};

class Bench {
  public:
    Bench(const Options& options, const BenchRows& rows)
        : options_(options), rows_(rows), workspace_(rows.vocab()) {}

    // A token of each row in turn, at T = 1: what a model would have written.
    void write_histories() {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        std::vector<std::int32_t> text;
        for (std::uint32_t i = 0; i < options_.history + rows_.count(); ++i) {
            text.push_back(decide(params, i % rows_.count(), {}, i, false));
        }
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            histories_.emplace_back(text.begin() + row, text.begin() + row + options_.history);
        }
    }

    void read_rows(std::vector<std::uint64_t>& times) {
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            times.push_back(
                nanoseconds_of([&] { sink_ = sink_ + read_once(rows_.row(row), rows_.row_bytes()); }));
        }
    }

    Measured measure(const BenchCase& which, std::vector<std::uint64_t>& read_times) {
        Measured measured{which.name, which.what, {}, {}, {}};
        std::vector<std::uint64_t> plain;
        std::vector<std::uint64_t> summarised;
        begin_states(which.params);
        for (std::uint32_t round = 0; round < options_.rounds; ++round) {
            read_rows(read_times);
            decide_rows(which.params, round, false, plain, measured);
            decide_rows(which.params, round, true, summarised, measured);
        }
        measured.plain = percentiles_us(std::move(plain));
        measured.summarised = percentiles_us(std::move(summarised));
        return measured;
    }

  private:
    void begin_states(const proto::SamplingParams& params) {
        states_.clear();
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            states_.push_back(std::make_unique<sampler::SequenceState>(rows_.vocab(), options_.history + 8));
            states_.back()->begin(params, {});
            // The decisions before: the next one pays for one token more.
            states_.back()->follow(prompt_of(row), {histories_[row].data() + options_.history / 2,
                                                    options_.history - options_.history / 2 - 1});
        }
    }

    std::span<const std::int32_t> prompt_of(std::uint32_t row) const {
        return {histories_[row].data(), options_.history / 2};
    }

    void decide_rows(const proto::SamplingParams& params, std::uint32_t round, bool summarised,
                     std::vector<std::uint64_t>& times, Measured& measured) {
        for (std::uint32_t row = 0; row < rows_.count(); ++row) {
            times.push_back(nanoseconds_of([&] { decide(params, row, histories_[row], round, summarised); }));
            measured.paths.insert(sampler::name_of(workspace_.answer().path));
            const std::size_t outputs = histories_[row].size() - options_.history / 2;
            states_[row]->truncate(options_.history / 2 + outputs - 1);
        }
    }

    std::int32_t decide(const proto::SamplingParams& params, std::uint32_t row,
                        std::span<const std::int32_t> history, std::uint32_t draw, bool summarised) {
        sampler::Request request;
        request.params = &params;
        request.max_length = options_.history + 8;
        request.random = proto::random_at(draw * 4096ULL + row, draw, 0, 0);
        if (history.empty()) {
            sampler::SequenceState state(rows_.vocab(), 8);
            state.begin(params, {});
            return sampler::decide(rows_.view(row, summarised), request, state, workspace_).token;
        }
        request.prompt = prompt_of(row);
        request.output = history.subspan(options_.history / 2);
        const auto decision =
            sampler::decide(rows_.view(row, summarised), request, *states_[row], workspace_);
        if (decision.error != proto::DecisionError::none) {
            throw std::runtime_error("row " + std::to_string(row) + " has no decision: error " +
                                     std::to_string(static_cast<int>(decision.error)));
        }
        return decision.token;
    }

    const Options& options_;
    const BenchRows& rows_;
    sampler::Workspace workspace_;
    std::vector<std::vector<std::int32_t>> histories_;
    std::vector<std::unique_ptr<sampler::SequenceState>> states_;
    volatile std::uint64_t sink_ = 0;
};

nlohmann::json to_json(const Percentiles& times, double read_once_us) {
    return {{"p50_us", times.p50}, {"p99_us", times.p99}, {"ratio", times.p50 / read_once_us}};
}

void print_json(const Options& options, const BenchRows& rows, double read_once_us,
                const std::vector<Measured>& all) {
    nlohmann::json cases;
    for (const Measured& each : all) {
        cases[each.name] = to_json(each.plain, read_once_us);
        cases[each.name]["summaries"] = to_json(each.summarised, read_once_us);
        cases[each.name]["paths"] = each.paths;
    }
    std::cout << nlohmann::json{{"read_once_us", read_once_us}, {"cases", cases},
                                {"vocab", rows.vocab()},        {"rows", rows.count()},
                                {"history", options.history},   {"rounds", options.rounds},
                                {"environment", environment()}}
              << "\n";
}

void print_table(double read_once_us, const std::vector<Measured>& all) {
    std::cout << fmt::format("a plain read of a row: {:.2f} us\n\n", read_once_us)
              << fmt::format("{:<12} {:>9} {:>9} {:>7}   {:>9} {:>9} {:>7}   {}\n", "", "p50 us", "p99 us",
                             "x read", "with sum.", "p99 us", "x read", "");
    for (const Measured& each : all) {
        std::cout << fmt::format("{:<12} {:>9.2f} {:>9.2f} {:>7.2f}   {:>9.2f} {:>9.2f} {:>7.2f}   {}\n",
                                 each.name, each.plain.p50, each.plain.p99, each.plain.p50 / read_once_us,
                                 each.summarised.p50, each.summarised.p99, each.summarised.p50 / read_once_us,
                                 each.what);
    }
}

bool asked_for(const Options& options, const std::string& name) {
    return options.cases.empty() ||
           std::find(options.cases.begin(), options.cases.end(), name) != options.cases.end();
}

int run(const Options& options) {
    if (!options.target.empty()) use_target(target_of(options.target));
    const BenchRows rows = options.files.empty() ? BenchRows::generated(options.vocab, options.rows)
                                                 : BenchRows::from_file(options.files, options.vocab);
    Bench bench(options, rows);
    bench.write_histories();
    std::vector<std::uint64_t> read_times;
    std::vector<Measured> all;
    for (const BenchCase& each : bench_cases()) {
        if (!asked_for(options, each.name)) continue;
        if (::isatty(STDERR_FILENO) != 0) std::cerr << "\r" << each.name << "            " << std::flush;
        all.push_back(bench.measure(each, read_times));
    }
    if (::isatty(STDERR_FILENO) != 0) std::cerr << "\r                        \r";
    const double read_once_us = percentiles_us(std::move(read_times)).p50;
    if (options.json) {
        print_json(options, rows, read_once_us, all);
    } else {
        print_table(read_once_us, all);
    }
    return 0;
}

}  // namespace

void add_decide_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("decide", "What a decision costs, beside a plain read of its row");
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files,
                        "Files of bf16 rows, one after another (default: generated rows)");
    command->add_option("--vocab", options->vocab, "Logits a row")->capture_default_str();
    command->add_option("--generated", options->rows, "How many rows to generate")->capture_default_str();
    command->add_option("--rounds", options->rounds, "Decisions of each row and case")->capture_default_str();
    command->add_option("--history", options->history, "Tokens of prompt and output")->capture_default_str();
    command->add_option("--cases", options->cases, "Only these (default: all)")->delimiter(',');
    command->add_option("--target", options->target, "Force an instruction set, as `croupier decide` does");
    command->add_flag("--json", options->json, "One JSON object");
    command->footer("Example: croupier bench decide --rows rows0.bf16 --vocab 151936 --json");
    command->callback([options, &status] {
        try {
            status = run(*options);
        } catch (const std::exception& error) {
            std::cerr << "bench decide: " << error.what() << "\n";
            status = 1;
        }
    });
}

}  // namespace croupier::tools
