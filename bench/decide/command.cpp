#include "bench/decide/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "bench/decide/bench_cases.h"
#include "bench/decide/report.h"
#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "explain/target.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Each round reads all rows once with the widest loads, then decides them without the writer's summaries, then
with them. "x read" is the time divided by that of a plain read of a row of the same dtype in the same run.
Each decision includes updating its sequence by one token.

The last column is the path of the decisions. `asked > classes` means that the first path could not settle
the decision and a second one did (docs/how-a-row-is-decided.md).

The part of a case after `+`: penalties (1.1/0.1/0.1), few (a mask of 200 ids), half (a mask of half the ids),
logprob (of the drawn token), prepared (first arrivals computed in advance). fp32 rows are the bf16 rows with
random low bits. Ranks 4 means four equal shares, as engines split rows; 4x64 splits at multiples of 64 ids.

Examples:
  croupier bench decide --rows rows0.bf16 --vocab 151936 --json
  croupier bench decide --rows rows0.bf16 --cases all --rounds 10 --markdown
  croupier bench decide --cases full,topp --temperatures 0.6,1 \
      --history 300,16k,128k
  croupier bench decide --cases topp,typical --dtype bf16,fp32 --ranks 1,4,4x64
  croupier bench decide --in-step --lean --cases full,temperature)";

struct Options {
    std::vector<std::string> files;
    std::uint32_t vocab = 151936;
    std::uint32_t rows = 40;
    std::uint32_t rounds = 40;
    std::vector<std::string> histories = {"1k"};
    std::vector<std::string> cases;
    std::vector<double> temperatures;
    std::vector<std::string> dtypes = {"bf16"};
    std::vector<std::string> ranks = {"1"};
    bool in_step = false;
    bool lean = false;
    std::string target;
    bool list = false;
    bool json = false;
    bool markdown = false;
};

// The temperatures to measure for a case; greedy has only one.
std::vector<double> temperatures_of(const BenchCase& which, const Options& options) {
    const bool all = std::find(options.cases.begin(), options.cases.end(), "all") != options.cases.end();
    if (which.params.temperature == 0.0) return {0.0};
    if (!options.temperatures.empty()) return options.temperatures;
    if (all) return {0.6, 1.0, 1.5};
    return {which.params.temperature};
}

struct Layout {
    proto::Dtype dtype;
    measurement::Ranks ranks;
};

std::vector<Layout> layouts_of(const Options& options) {
    std::vector<Layout> layouts;
    for (const std::string& dtype : options.dtypes) {
        for (const std::string& ranks : options.ranks)
            layouts.push_back({measurement::dtype_of(dtype), measurement::ranks_of(ranks)});
    }
    return layouts;
}

struct Work {
    std::vector<BenchCase> cases;
    std::vector<Layout> layouts;
    std::vector<std::uint32_t> histories;

    std::uint32_t most_history() const { return *std::max_element(histories.begin(), histories.end()); }
    std::uint64_t size(const Options& options) const {
        std::uint64_t settings = 0;
        for (const BenchCase& each : cases) settings += temperatures_of(each, options).size();
        return settings * layouts.size() * histories.size();
    }
};

// Measures all cases with rows in one layout.
std::vector<Measured> measure_layout(const Options& options, const Work& work, const Layout& layout,
                                     const measurement::LaidRows& rows, CaseTimer& timer,
                                     command_line::Progress& progress) {
    std::vector<Measured> all;
    std::vector<std::uint64_t> reads;
    for (const BenchCase& which : work.cases) {
        for (const double temperature : temperatures_of(which, options)) {
            const CaseRequest request(which, rows.vocab(), temperature);
            for (const std::uint32_t history : work.histories) {
                Measured measured{which.name,   which.what,        temperature, history,
                                  layout.dtype, layout.ranks.name, 0.0,         {}};
                measured.times = timer.measure(request, rows, history, options.rounds, reads);
                all.push_back(std::move(measured));
                progress.advance(1);
            }
        }
    }
    const double read_us = measurement::percentiles_us(std::move(reads)).p50;
    for (Measured& each : all) each.read_us = read_us;
    return all;
}

int list_cases() {
    for (const BenchCase& each : all_bench_cases()) {
        std::cout << fmt::format("{:<20} {}\n", each.name, each.what);
    }
    return 0;
}

int run(const Options& options) {
    if (options.list) return list_cases();
    if (options.lean && options.ranks != std::vector<std::string>{"1"})
        throw std::runtime_error("--lean supports only one rank: leave out --ranks");
    if (!options.target.empty()) explain::use_target(explain::target_of(options.target));
    Work work{chosen_cases(options.cases), layouts_of(options), {}};
    for (const std::string& each : options.histories) work.histories.push_back(history_of(each));
    const measurement::BenchRows rows = options.files.empty()
                                            ? measurement::BenchRows::generated(options.vocab, options.rows)
                                            : measurement::BenchRows::from_file(options.files, options.vocab);
    const std::vector<std::int32_t> text = written_text(rows, work.most_history() + rows.count());
    CaseTimer timer(rows, text, work.most_history());
    command_line::Progress progress("settings", 1);
    progress.begin("measuring", work.size(options));
    DecideReport report{rows.vocab(), rows.count(), options.rounds, {}};
    for (const Layout& layout : work.layouts) {
        const measurement::LaidRows laid(rows, layout.dtype, layout.ranks, options.in_step);
        std::optional<measurement::LaidRows> in_memory;
        std::optional<LeanRows> lean;
        if (options.lean) {
            in_memory.emplace(rows, layout.dtype, layout.ranks, false);
            timer.use(lean.emplace(*in_memory, laid));
        }
        for (Measured& each : measure_layout(options, work, layout, laid, timer, progress))
            report.all.push_back(std::move(each));
    }
    if (options.json) {
        print_json(report);
    } else if (options.markdown) {
        print_markdown(report);
    } else {
        print_table(report);
    }
    return 0;
}

}  // namespace

void add_decide_bench(CLI::App& bench, int& status) {
    auto* command =
        bench.add_subcommand("decide", "Compare the time of a decision with a plain read of its row");
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files, "Files with bf16 rows (default: generated rows)");
    command->add_option("--vocab", options->vocab, "Logits per row")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--generated", options->rows, "Number of rows to generate")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--rounds", options->rounds, "Decisions per row and case")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--history", options->histories, "Lengths of prompt and output in tokens")
        ->delimiter(',')
        ->capture_default_str();
    command
        ->add_option("--cases", options->cases,
                     "Cases to measure; `all` for every one (default: nine common ones)")
        ->delimiter(',');
    command
        ->add_option("--temperatures", options->temperatures,
                     "Temperatures for the non-greedy cases (default: 0.8; with `all` 0.6, 1 and 1.5)")
        ->check(command_line::number_between(0.01, 100.0))
        ->delimiter(',');
    command->add_option("--dtype", options->dtypes, "Data types of the rows: bf16, fp16, fp32")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--ranks", options->ranks, "Numbers of ranks that share a row: 1, 4, 4x64")
        ->delimiter(',')
        ->capture_default_str();
    command->add_flag("--in-step", options->in_step,
                      "Lay the rows out as columns of one step, as engines do (default: separately)");
    command->add_flag("--lean", options->lean,
                      "Measure lean rows instead of rows with summaries; a time includes all tries of a "
                      "decision (one rank)");
    command->add_option("--target", options->target, "Instruction set to use, as in `croupier decide`");
    command->add_flag("--list", options->list, "List the cases");
    auto* json = command->add_flag("--json", options->json, "Print one JSON object");
    command->add_flag("--markdown", options->markdown, "Print the table as Markdown")->excludes(json);
    command->footer(kHelp);
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
