#include "bench/lean/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/lean/lean_steps.h"
#include "bench/writer/gpu.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

using lean::Case;
using lean::LeanSteps;
using nlohmann::json;

// Several times any GPU's second-level cache, and some steps of the largest batch.
constexpr std::size_t kColdBytes = std::size_t{512} << 20U;
constexpr std::uint32_t kWarmUp = 30;
constexpr std::uint32_t kEnds = 2;  // blocks that are sent in any case

struct Options {
    std::uint32_t vocab = 151936;
    std::vector<std::uint32_t> batches{1, 8, 32, 64, 128, 256};
    std::uint32_t steps = 300;
    bool json = false;
};

template <typename Step>
json percentiles_of(std::uint32_t steps, Step step) {
    std::vector<std::uint64_t> times;
    for (std::uint32_t i = 0; i < kWarmUp + steps; ++i) {
        const std::uint64_t took = step();
        if (i >= kWarmUp) times.push_back(took);
    }
    return to_json(measurement::percentiles_us(std::move(times)));
}

json measure(const Case& of, const lean::ColdRows& rows, std::uint32_t steps) {
    LeanSteps session(of, rows);
    json result = {{"columns", of.columns},
                   {"by_maximum", of.by_maximum},
                   {"by_race", of.by_race},
                   {"sums", of.sums},
                   {"drawn", of.drawn},
                   {"racers", of.racers},
                   {"spreads", of.spreads},
                   {"masked", of.masked},
                   {"to_ready_us", percentiles_of(steps, [&] { return session.to_ready(); })},
                   {"to_tokens_us", percentiles_of(steps, [&] { return session.to_tokens(); })},
                   {"kernel_us", percentiles_of(steps, [&] { return session.of_kernel(false); })},
                   {"cold_kernel_us", percentiles_of(steps, [&] { return session.of_kernel(true); })},
                   {"empty_to_flag_us", percentiles_of(steps, [&] { return session.empty_to_flag(); })},
                   {"empty_to_tokens_us", percentiles_of(steps, [&] { return session.empty_to_tokens(); })}};
    const std::uint32_t sent = session.blocks_sent();
    const auto by_maximum = gpu_writer::LeanShare::about(of.by_maximum, of.by_maximum);
    const auto by_race = gpu_writer::LeanShare::about(of.by_race, of.by_race);
    const std::uint32_t least = of.drawn ? 0 : of.columns * by_maximum.least;
    const std::uint32_t most = of.drawn ? 0 : of.columns * (by_maximum.most + by_race.most + kEnds);
    if (sent < least || sent > most) {
        throw std::runtime_error(std::to_string(sent) + " blocks were sent of " + std::to_string(of.columns) +
                                 " columns");
    }
    result["blocks_sent"] = sent;
    result["bytes_sent"] = session.bytes_sent();
    result["bytes_of_rows"] = std::size_t{of.vocab} * of.columns * 2;
    return result;
}

json measure_answers(const Case& of, const lean::ColdRows& rows, std::uint32_t steps) {
    LeanSteps session(of, rows);
    json results = json::array();
    const auto add = [&](std::uint32_t columns, std::uint32_t blocks, bool first) {
        const auto times = percentiles_of(steps, [&] { return session.to_answers(columns, blocks, !first); });
        results.push_back(
            {{"columns", columns}, {"blocks_each", blocks}, {"first_of_step", first}, {"us", times}});
    };
    for (const bool first : {true, false}) {
        for (const std::uint32_t columns : {1U, 16U, 64U}) add(columns, 8, first);
        add(1, of.vocab / proto::kBlockIds, first);
    }
    return results;
}

Case masked(Case of) {
    of.masked = true;
    return of;
}

json run(const Options& options) {
    json where = measurement::environment();
    where["gpu"] = writer::gpu_name(0);
    const lean::ColdRows rows(kColdBytes);
    json results = json::array();
    for (const std::uint32_t columns : options.batches) {
        for (const Case& each :
             {Case{options.vocab, columns, 16, 16}, Case{options.vocab, columns, 16, 16, true},
              // What top-k of 50 with penalties has.
              Case{options.vocab, columns, 65, 0}, Case{options.vocab, columns, 32, 0},
              Case{options.vocab, columns, 32, 32},
              // A temperature alone, as writers have it.
              Case{options.vocab, columns, 4, 32}, Case{options.vocab, columns, 4, 32, false, true},
              // A top-p with penalties.
              Case{options.vocab, columns, 32, 84, true, false, true},
              // The same with half as many blocks opened, and penalties alone.
              Case{options.vocab, columns, 32, 64, true, false, true},
              Case{options.vocab, columns, 4, 84, false, false, true},
              // All controls, and a temperature alone, under grammar masks.
              masked({options.vocab, columns, 65, 0}), masked({options.vocab, columns, 4, 72}),
              // One of greedy columns has its spread, and all of those with a top-n sigma.
              Case{options.vocab, columns, 4, 0}, Case{options.vocab, columns, 4, 0, false, false, false, 1},
              Case{options.vocab, columns, 72, 84, false, false, true, columns}}) {
            std::cerr << fmt::format("\r{} columns, {} + {} blocks      ", columns, each.by_maximum,
                                     each.by_race);
            results.push_back(measure(each, rows, options.steps));
        }
    }
    std::cerr << "\n";
    return {{"vocab", options.vocab},
            {"steps", options.steps},
            {"results", results},
            {"answers", measure_answers({options.vocab, 64, 16, 16, false}, rows, options.steps)},
            {"environment", where}};
}

void print_table(const json& answer) {
    std::cout << answer["environment"]["gpu"].get<std::string>() << "\n\n"
              << fmt::format("{:>7} {:>12} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "columns",
                             "blocks", "sums", "ready us", "p99", "tokens us", "p99", "kernel us", "empty us",
                             "KB");
    for (const json& each : answer["results"]) {
        std::cout << fmt::format(
            "{:>7} {:>12} {:>5} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}\n",
            each["columns"].get<int>(),
            each["drawn"].get<bool>()
                ? "drawn"
                : fmt::format(
                      "{}+{}{}{}{}", each["by_maximum"].get<int>(), each["by_race"].get<int>(),
                      each["racers"].get<bool>() ? " r" : "", each["masked"].get<bool>() ? " m" : "",
                      each["spreads"].get<int>() == 0 ? "" : fmt::format(" s{}", each["spreads"].get<int>())),
            each["sums"].get<bool>() ? "yes" : "no", each["to_ready_us"]["p50"].get<double>(),
            each["to_ready_us"]["p99"].get<double>(), each["to_tokens_us"]["p50"].get<double>(),
            each["to_tokens_us"]["p99"].get<double>(), each["kernel_us"]["p50"].get<double>(),
            each["empty_to_tokens_us"]["p50"].get<double>(), each["bytes_sent"].get<double>() * 1e-3);
    }
    for (const json& each : answer["answers"]) {
        std::cout << fmt::format("{} columns ask for {} blocks each, {}: {:.1f} us, p99 {:.1f}\n",
                                 each["columns"].get<int>(), each["blocks_each"].get<int>(),
                                 each["first_of_step"].get<bool>() ? "first of their step" : "later",
                                 each["us"]["p50"].get<double>(), each["us"]["p99"].get<double>());
    }
}

}  // namespace

void add_lean_bench(CLI::App& bench) {
    auto* command = bench.add_subcommand(
        "lean", "Time a lean step from GPU to CPU and back, without decisions (needs a GPU)");
    auto options = std::make_shared<Options>();
    command->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    command->add_option("--batches", options->batches, "Columns per step")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--steps", options->steps, "Steps per measurement")->capture_default_str();
    command->add_flag("--json", options->json, "Print one JSON object");
    command->footer("Examples:\n  croupier bench lean --batches 32,256");
    command->callback([options] {
        const json answer = run(*options);
        if (options->json) {
            std::cout << answer.dump(1) << "\n";
        } else {
            print_table(answer);
        }
    });
}

}  // namespace croupier::bench
