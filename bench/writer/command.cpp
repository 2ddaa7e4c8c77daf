#include "bench/writer/command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "bench/writer/bench_session.h"
#include "bench/writer/gpu.h"
#include "measurement/environment.h"

namespace croupier::bench {
namespace {

using nlohmann::json;
using writer::BenchSession;
using writer::Case;
using writer::MatmulLoad;
using writer::StepTimes;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRounds = 3;
constexpr std::uint32_t kSingleSteps = 60;
constexpr std::chrono::milliseconds kStepEvery{5};

struct Options {
    std::uint32_t vocab = 151936;
    std::vector<std::uint32_t> batches{1, 8, 32, 128, 256};
    std::vector<std::uint32_t> sweep{2, 4, 8, 16, 32, 66, 132};
    std::uint32_t products = 120;
    bool json = false;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

const char* path_name(std::uint32_t path) {
    return path == CROUPIER_WRITER_STORE ? "store" : "copy";
}

// Enough steps for a round of tens of milliseconds.
std::uint32_t repeats_for(std::size_t bytes) {
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(std::size_t{2'000'000'000} / bytes, 20, 400));
}

double rate_of(BenchSession& session) {
    const std::uint32_t steps = repeats_for(session.slice_bytes());
    session.run(steps / 4 + 4);
    std::vector<double> seconds;
    for (std::uint32_t round = 0; round < kRounds; ++round) seconds.push_back(session.run(steps));
    return static_cast<double>(session.slice_bytes()) * steps / median(std::move(seconds));
}

json single_steps(BenchSession& session, double flag_seconds) {
    std::vector<double> begin;
    std::vector<double> call;
    std::vector<double> first;
    std::vector<double> complete;
    for (std::uint32_t i = 0; i < kSingleSteps; ++i) {
        const StepTimes times = session.one_step();
        if (i < 5) continue;
        begin.push_back(times.begin_call * 1e6);
        call.push_back(times.enqueue_call * 1e6);
        first.push_back(times.first_tiles * 1e6);
        complete.push_back(times.complete * 1e6);
    }
    const double first_us = median(std::move(first));
    return {{"begin_call_us", median(std::move(begin))},
            {"enqueue_call_us", median(std::move(call))},
            {"first_tiles_us", first_us},
            {"first_tiles_after_an_empty_kernel_us", first_us - flag_seconds * 1e6},
            {"complete_us", median(std::move(complete))}};
}

// The relative slowdown of a loop of matrix products by the writer.
double slowdown(MatmulLoad& load, BenchSession& session, std::uint32_t products, bool back_to_back) {
    std::vector<double> ratios;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        const double alone = load.run(products, [] { std::this_thread::yield(); });
        auto due = Clock::now();
        const double beside = load.run(products, [&] {
            if (!back_to_back && Clock::now() < due) return;
            due += kStepEvery;
            session.keep_going();
        });
        session.drain();
        ratios.push_back(beside / alone - 1);
    }
    return median(std::move(ratios));
}

json measure(const Case& of, double plain_rate, double flag_seconds, MatmulLoad& load,
             std::uint32_t products) {
    BenchSession session(of);
    const double rate = rate_of(session);
    json result = single_steps(session, flag_seconds);
    result["path"] = path_name(of.path);
    result["columns"] = of.columns;
    result["summaries"] = of.summaries;
    result["ordered"] = of.ordered;
    result["store_blocks"] = of.store_blocks;
    result["slice_bytes"] = session.slice_bytes();
    result["gb_per_second"] = rate * 1e-9;
    result["of_plain_copy"] = rate / plain_rate;
    result["matmul_slowdown_every_5ms"] = slowdown(load, session, products, false);
    result["matmul_slowdown_back_to_back"] = slowdown(load, session, products, true);
    return result;
}

// If a case fails, reports the error in its line and continues.
json measured_or_error(const Case& of, double plain_rate, double flag_seconds, MatmulLoad& load,
                       std::uint32_t products) {
    try {
        return measure(of, plain_rate, flag_seconds, load, products);
    } catch (const std::exception& error) {
        return {{"path", path_name(of.path)},
                {"columns", of.columns},
                {"store_blocks", of.store_blocks},
                {"error", error.what()}};
    }
}

// Copies to the registered memory of the writer's slices.
double plain_rate_of(const Case& of) {
    const BenchSession session(of);
    return writer::plain_copy_rate(session.slice_memory(), session.logits(), session.slice_bytes(),
                                   repeats_for(session.slice_bytes()));
}

std::vector<Case> cases_of(const Options& options, std::uint32_t columns) {
    std::vector<Case> cases;
    for (const std::uint32_t path : {CROUPIER_WRITER_STORE, CROUPIER_WRITER_COPY}) {
        cases.push_back({options.vocab, columns, false, false, path, 0});
        cases.push_back({options.vocab, columns, true, false, path, 0});
        cases.push_back({options.vocab, columns, true, true, path, 0});
    }
    if (columns != 32 && columns != 256) return cases;
    for (const std::uint32_t blocks : options.sweep) {
        cases.push_back({options.vocab, columns, true, false, CROUPIER_WRITER_STORE, blocks});
    }
    return cases;
}

json run(const Options& options) {
    json where = measurement::environment();
    where["gpu"] = writer::gpu_name(0);
    const double flag_seconds = writer::launch_to_flag_seconds();
    MatmulLoad load;
    const double product_seconds =
        load.run(options.products, [] { std::this_thread::yield(); }) / options.products;
    json batches = json::array();
    for (const std::uint32_t columns : options.batches) {
        Case plain{options.vocab, columns, true, false, CROUPIER_WRITER_STORE, 0};
        const double plain_rate = plain_rate_of(plain);
        json results = json::array();
        for (const Case& each : cases_of(options, columns)) {
            std::cerr << fmt::format("\r{} columns, {}, {} blocks      ", columns, path_name(each.path),
                                     each.store_blocks);
            results.push_back(measured_or_error(each, plain_rate, flag_seconds, load, options.products));
        }
        batches.push_back(
            {{"columns", columns}, {"plain_copy_gb_per_second", plain_rate * 1e-9}, {"results", results}});
    }
    std::cerr << "\n";
    return {{"vocab", options.vocab},
            {"launch_to_flag_us", flag_seconds * 1e6},
            {"matmul_us", product_seconds * 1e6},
            {"batches", batches},
            {"environment", where}};
}

void print_table(const json& answer) {
    std::cout << fmt::format("{}: launch to flag {:.1f} us\n\n",
                             answer["environment"]["gpu"].get<std::string>(),
                             answer["launch_to_flag_us"].get<double>())
              << fmt::format("{:>7} {:>6} {:>7} {:>4} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9}\n", "columns",
                             "path", "blocks", "sum.", "GB/s", "plain", "first us", "last us", "+5ms",
                             "+always");
    for (const json& batch : answer["batches"]) {
        for (const json& each : batch["results"]) {
            if (each.contains("error")) {
                std::cout << fmt::format("{:>7} {:>6} {}\n", each["columns"].get<int>(),
                                         each["path"].get<std::string>(), each["error"].get<std::string>());
                continue;
            }
            std::cout << fmt::format(
                "{:>7} {:>6} {:>7} {:>4} {:>7.2f} {:>6.3f} {:>9.1f} {:>9.1f} {:>8.2f}% {:>8.2f}%\n",
                each["columns"].get<int>(), each["path"].get<std::string>(), each["store_blocks"].get<int>(),
                each["summaries"].get<bool>() ? (each["ordered"].get<bool>() ? "hot" : "yes") : "no",
                each["gb_per_second"].get<double>(), each["of_plain_copy"].get<double>(),
                each["first_tiles_us"].get<double>(), each["complete_us"].get<double>(),
                each["matmul_slowdown_every_5ms"].get<double>() * 100,
                each["matmul_slowdown_back_to_back"].get<double>() * 100);
        }
    }
}

}  // namespace

void add_writer_bench(CLI::App& bench) {
    auto* command = bench.add_subcommand("writer", "Compare the CUDA writer with plain copies (needs a GPU)");
    auto options = std::make_shared<Options>();
    command->add_option("--vocab", options->vocab, "Logits per row")->capture_default_str();
    command->add_option("--batches", options->batches, "Columns per step")
        ->delimiter(',')
        ->capture_default_str();
    command
        ->add_option("--blocks", options->sweep,
                     "Numbers of blocks of the store kernel to measure at 32 and 256 columns")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--products", options->products, "Number of matrix products in the loop")
        ->capture_default_str();
    command->add_flag("--json", options->json, "Print one JSON object");
    command->footer("Examples:\n  croupier bench writer --batches 32,256");
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
