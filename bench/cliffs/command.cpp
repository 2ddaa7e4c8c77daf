#include "bench/cliffs/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "bench/cliffs/host_costs.h"
#include "bench/cliffs/report.h"
#include "bench/cliffs/session_costs.h"
#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "measurement/bench_rows.h"
#include "proto/geometry.h"

namespace croupier::bench {
namespace {

constexpr const char* kHelp =
    R"(Requests are drawn from the whole space of parameters: each control alone, in pairs and in mixtures, at both ends
of its range and between; histories of 100 to 100,000 tokens; bf16, fp16 and fp32. With the same rows and options, a
request depends on the seed and its number alone. Each is decided for some rows, also by the reference. The run fails
if a decision differs, or if the dearest request costs more than --most medians.

"medians": the cost in units of the median request. "reads": the CPU's time in plain reads of a row of its dtype.

--transport rows: the cost is that of a decision about a whole row.

--transport lean: rows are laid as a writer would send them. The cost is the estimated time of a step of 256 columns:
the decisions with all of their tries, on 14 samplers, and the bytes at 55 GB/s. What a further try waits for its
blocks is not in it. The requests are those that a lean session admits: no rng shvs, at most 64 log-probs.

--writer cuda: a lean session of a real daemon with samplers, and GPU 0's writer. The cost is the median of up to 20
steps, from the logits in GPU memory to the tokens there. All columns of a step have the request, with different
seeds, histories and rows. The path is that of the request's plan.

--writer host: the same with the writer of the host, from the logits to the last decision. It needs no GPU, but it
lays rows slowly: use few columns.

Examples:
  croupier bench cliffs --rows rows0.bf16 --rows rows1.bf16
  croupier bench cliffs --transport lean --seed 2 --json
  croupier bench cliffs --writer cuda --samplers 14
  croupier bench cliffs --seed 1 --only 1234      measure one request again)";

struct Options {
    std::vector<std::string> files;
    std::uint32_t vocab = 151936;
    std::uint32_t generated = 40;
    std::uint32_t requests = 2000;
    std::uint32_t seed = 1;
    std::optional<std::uint32_t> only;
    std::uint32_t longest_history = 100'000;
    std::string transport = "rows";
    std::string writer = "none";
    SessionMeasure session;
    std::uint32_t verified = 1;
    std::uint32_t shown = 25;
    double most_medians = 6.0;
    bool json = false;

    bool in_session() const { return writer != "none"; }
    bool lean() const { return in_session() || transport == "lean"; }
};

std::vector<MeasuredRequest> drawn_requests(const Options& options, const Histories& histories) {
    const RequestSpace space{options.seed, options.vocab, options.longest_history, options.lean(),
                             histories.likely()};
    if (options.only) return {{drawn_request(space, *options.only), {}}};
    std::vector<MeasuredRequest> drawn;
    for (std::uint32_t number = 0; number < options.requests; ++number)
        drawn.push_back({drawn_request(space, number), {}});
    return drawn;
}

void sort_by_cost(std::vector<MeasuredRequest>& all) {
    std::sort(all.begin(), all.end(), [](const MeasuredRequest& a, const MeasuredRequest& b) {
        return a.cost.us > b.cost.us || (a.cost.us == b.cost.us && a.drawn.number < b.drawn.number);
    });
}

// A session has one dtype, so that those of one are measured one after another.
void sort_by_dtype(std::span<MeasuredRequest> all) {
    std::stable_sort(all.begin(), all.end(), [](const MeasuredRequest& a, const MeasuredRequest& b) {
        return a.drawn.dtype < b.drawn.dtype;
    });
}

// Dearest first. Those are measured again, because other load on the machine only adds to a time.
template <typename Costs>
std::vector<MeasuredRequest> measure_all(std::vector<MeasuredRequest> all, Costs& costs) {
    constexpr std::size_t kAgain = 30;
    const std::size_t again = std::min(kAgain, all.size());
    command_line::Progress progress("requests", 1);
    progress.begin("measuring", all.size() + again);
    sort_by_dtype(all);
    for (MeasuredRequest& each : all) {
        each.cost = costs.measure(each.drawn);
        progress.advance(1);
    }
    sort_by_cost(all);
    sort_by_dtype(std::span(all).first(again));
    for (MeasuredRequest& each : std::span(all).first(again)) {
        RequestCost second = costs.measure(each.drawn);
        if (second.us < each.cost.us && each.cost.difference.empty()) each.cost = std::move(second);
        progress.advance(1);
    }
    sort_by_cost(all);
    return all;
}

// What distinguishes the measurement from others.
std::string common_command(const Options& options) {
    std::string text = options.in_session()
                           ? fmt::format("croupier bench cliffs --writer {} --samplers {} --columns {}",
                                         options.writer, options.session.samplers, options.session.columns)
                           : "croupier bench cliffs --transport " + options.transport;
    for (const std::string& file : options.files) text += " --rows " + file;
    const Options usual;
    if (options.vocab != usual.vocab) text += fmt::format(" --vocab {}", options.vocab);
    if (options.generated != usual.generated) text += fmt::format(" --generated {}", options.generated);
    if (options.longest_history != usual.longest_history)
        text += fmt::format(" --longest-history {}", options.longest_history);
    return text;
}

std::string what_is_measured(const Options& options) {
    if (options.in_session())
        return fmt::format("a lean step of {} columns, {} samplers, writer {}", options.session.columns,
                           options.session.samplers, options.writer);
    if (options.lean())
        return fmt::format("estimated step of {} lean columns, {} samplers", kStepColumns, kStepSamplers);
    return "a decision about a whole row";
}

std::vector<MeasuredRequest> measure_on_host(const Options& options, const measurement::BenchRows& rows) {
    HostMeasure how;
    how.lean = options.lean();
    how.verified = options.verified;
    const Histories histories(rows, options.longest_history, how.rows);
    HostCosts costs(rows, histories, how);
    return measure_all(drawn_requests(options, histories), costs);
}

std::vector<MeasuredRequest> measure_in_session(const Options& options, const measurement::BenchRows& rows) {
    SessionMeasure how = options.session;
    how.cuda = options.writer == "cuda";
    how.verified = std::min(options.verified, how.columns);
    const Histories histories(rows, options.longest_history, how.columns);
    SessionCosts costs(rows, histories, how);
    return measure_all(drawn_requests(options, histories), costs);
}

int run(const Options& options) {
    const measurement::BenchRows rows =
        options.files.empty() ? measurement::BenchRows::generated(options.vocab, options.generated)
                              : measurement::BenchRows::from_file(options.files, options.vocab);
    CliffsReport report;
    report.how = what_is_measured(options);
    report.reproduced = common_command(options);
    report.seed = options.seed;
    report.most_medians = options.most_medians;
    report.all = options.in_session() ? measure_in_session(options, rows) : measure_on_host(options, rows);
    options.json ? print_cliffs_json(report) : print_cliffs(report, options.shown);
    return report.differs() || report.has_cliff() ? 1 : 0;
}

}  // namespace

void add_cliffs_bench(CLI::App& bench, int& status) {
    auto* command = bench.add_subcommand("cliffs", "Search random requests for those that cost much more");
    auto options = std::make_shared<Options>();
    command->add_option("--rows", options->files, "Files with bf16 rows (default: generated rows)");
    command->add_option("--vocab", options->vocab, "Logits per row")
        ->check(CLI::Range(64U, proto::kMaxVocab))
        ->capture_default_str();
    command->add_option("--generated", options->generated, "Number of rows to generate")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--requests", options->requests, "Number of requests to draw")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--seed", options->seed, "Seed of the requests")->capture_default_str();
    command->add_option("--only", options->only, "Measure only the request with this number");
    command->add_option("--longest-history", options->longest_history, "Most tokens of prompt and output")
        ->check(CLI::Range(2U, 1'000'000U))
        ->capture_default_str();
    auto* transport =
        command->add_option("--transport", options->transport, "What a decision reads: rows or lean")
            ->check(CLI::IsMember({"rows", "lean"}))
            ->capture_default_str();
    command->add_option("--writer", options->writer, "Measure steps of a real session: none, host or cuda")
        ->check(CLI::IsMember({"none", "host", "cuda"}))
        ->excludes(transport)
        ->capture_default_str();
    command->add_option("--samplers", options->session.samplers, "Samplers, with --writer")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--columns", options->session.columns, "Columns of a step, with --writer")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--verify", options->verified, "Rows of each request that the reference decides too")
        ->capture_default_str();
    command->add_option("--show", options->shown, "How many of the dearest kinds of requests to print")
        ->capture_default_str();
    command->add_option("--most", options->most_medians, "What the dearest request may cost, in medians")
        ->check(command_line::number_between(1.0, 1e9))
        ->capture_default_str();
    command->add_flag("--json", options->json, "Print one JSON object");
    command->footer(kHelp);
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
