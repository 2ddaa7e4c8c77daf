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
    R"(Rows take turns, and in each round all rows are read once by the widest loads there are, then decided without a
writer's summaries, then with them. "x read" is a time in plain reads of a row of the same dtype, of the same
run. A decision's time holds the one token that its sequence has grown by.

How a decision was reached stands last; `asked > classes` says that bounds left a question open and a second
way answered it (docs/how-a-row-is-decided.md).

A case with `+`: penalties (1.1/0.1/0.1), few (a mask of 200 ids), half (of half the ids), logprob
(the drawn token's). fp32 rows are the bf16 rows with bits added that bf16 has not. Of ranks, 4 cuts a row in
four wherever that falls, as engines do, 4x64 between blocks of 64 ids.
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

// What is measured of one case: greedy has no temperature to vary.
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

// All cases over rows of one layout.
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
    const bool one_rank = options.ranks == std::vector<std::string>{"1"};
    if (options.lean && (!one_rank || options.dtypes != std::vector<std::string>{"bf16"}))
        throw std::runtime_error("--lean has rows of one rank and of bf16: leave out --ranks and --dtype");
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
        std::optional<LeanRows> lean;
        if (options.lean) timer.use(lean.emplace(rows, laid));
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
    auto* command = bench.add_subcommand("decide", "What a decision costs, beside a plain read of its row");
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files,
                        "Files of bf16 rows, one after another (default: generated rows)");
    command->add_option("--vocab", options->vocab, "Logits a row")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--generated", options->rows, "How many rows to generate")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--rounds", options->rounds, "Decisions of each row and case")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        ->add_option("--history", options->histories,
                     "Tokens of prompt and output; several are measured each")
        ->delimiter(',')
        ->capture_default_str();
    command
        ->add_option("--cases", options->cases,
                     "Only these; `all` for every filter, alone and in company (default: nine common ones)")
        ->delimiter(',');
    command
        ->add_option("--temperatures", options->temperatures,
                     "Of all that is not greedy (default: the case's own, 0.8; for `all` 0.6, 1 and 1.5)")
        ->check(command_line::number_between(0.01, 100.0))
        ->delimiter(',');
    command->add_option("--dtype", options->dtypes, "bf16, fp16 or fp32; several are measured each")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--ranks", options->ranks, "Slices a row: 1, 4, 4x64; several are measured each")
        ->delimiter(',')
        ->capture_default_str();
    command->add_flag("--in-step", options->in_step,
                      "All rows are columns of one step, as engines write them (default: each lies alone)");
    command->add_flag(
        "--lean", options->lean,
        "In place of rows with summaries, what a lean step sends of them, and more when a decision "
        "asks: all its tries count (bf16, one rank)");
    command->add_option("--target", options->target, "Force an instruction set, as `croupier decide` does");
    command->add_flag("--list", options->list, "The cases' names and what each is");
    auto* json = command->add_flag("--json", options->json, "One JSON object");
    command->add_flag("--markdown", options->markdown, "The table as a page has it")->excludes(json);
    command->footer(kHelp);
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
