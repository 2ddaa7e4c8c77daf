#include "bench/fan_out/command.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/fan_out/trip.h"
#include "measurement/environment.h"
#include "measurement/percentiles.h"

namespace croupier::bench {
namespace {

// Limits of a burst: large records must fit into memory, and small ones must take long enough to time.
constexpr std::uint64_t kBurstBytes = 256U << 20U;

struct FanOutBenchOptions {
    TripOptions trip;
    std::vector<std::uint32_t> sizes = {64, 4096, 65536, 1U << 20U};
    std::uint32_t rounds = 5;
    bool json = false;
};

struct Measured {
    std::vector<std::uint64_t> latency_ns;
    std::vector<double> rates;  // per round
    std::string why_not;        // why it could not be measured; empty if it was

    double rate() const {
        std::vector<double> sorted = rates;
        std::sort(sorted.begin(), sorted.end());
        return sorted.empty() ? 0 : sorted[sorted.size() / 2];
    }
};

using Row = std::map<Way, Measured>;

// Alternates between the methods, so that other load affects all of them.
Row measure(const FanOutBenchOptions& options, std::uint32_t bytes) {
    TripOptions trip = options.trip;
    trip.record_bytes = bytes;
    trip.burst = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(trip.burst, std::max<std::uint64_t>(kBurstBytes / bytes, 1)));
    Row row;
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
        for (const Way way : {Way::bare, Way::zmq, Way::nccl}) {
            Measured& measured = row[way];
            if (!measured.why_not.empty()) continue;
            try {
                const Trip made = make_trip(way, trip);
                measured.latency_ns.insert(measured.latency_ns.end(), made.latency_ns.begin(),
                                           made.latency_ns.end());
                measured.rates.push_back(made.records_a_second);
            } catch (const std::exception& failure) {
                // NCCL needs a GPU per member and may fail; failures of the others are fatal.
                if (way != Way::nccl) throw;
                measured.why_not = failure.what();
            }
        }
    }
    return row;
}

nlohmann::json to_json(const Measured& measured, const Measured& bare) {
    if (!measured.why_not.empty()) return {{"not_measured", measured.why_not}};
    const measurement::Percentiles times = measurement::percentiles_us(measured.latency_ns);
    return {{"latency_us", to_json(times)},
            {"records_a_second", measured.rate()},
            {"records_a_second_of_rounds", measured.rates},
            {"latency_to_bare_p50", times.p50 / measurement::percentiles_us(bare.latency_ns).p50},
            {"rate_to_bare", measured.rate() / bare.rate()}};
}

void print(std::uint32_t bytes, const Row& row) {
    const Measured& bare = row.at(Way::bare);
    const double bare_p50 = measurement::percentiles_us(bare.latency_ns).p50;
    for (const auto& [way, measured] : row) {
        if (!measured.why_not.empty()) continue;
        const measurement::Percentiles times = measurement::percentiles_us(measured.latency_ns);
        std::cout << fmt::format("{:>8}  {:<14} {:>9.1f} {:>9.1f} {:>7.2f} x {:>11.0f} {:>9.1f} {:>7.2f} x\n",
                                 bytes, name_of(way), times.p50, times.p99, times.p50 / bare_p50,
                                 measured.rate(), measured.rate() * bytes / 1e6,
                                 measured.rate() / bare.rate());
    }
    std::cout << std::flush;
}

int run(const FanOutBenchOptions& options) {
    nlohmann::json rows = nlohmann::json::array();
    std::string why_no_nccl;
    if (!options.json) {
        std::cout << fmt::format("{:>8}  {:<14} {:>9} {:>9} {:>9} {:>11} {:>9} {:>9}\n", "bytes", "method",
                                 "p50 us", "p99 us", "to bare", "records/s", "MB/s", "to bare");
    }
    for (const std::uint32_t bytes : options.sizes) {
        const Row row = measure(options, bytes);
        why_no_nccl = row.at(Way::nccl).why_not;
        if (!options.json) print(bytes, row);
        nlohmann::json object = {{"bytes", bytes}};
        for (const auto& [way, measured] : row)
            object[way == Way::bare ? "bare" : name_of(way)] = to_json(measured, row.at(Way::bare));
        rows.push_back(std::move(object));
    }
    if (options.json) {
        std::cout << nlohmann::json{{"sizes", rows},
                                    {"leaves", options.trip.leaves},
                                    {"rounds", options.rounds},
                                    {"paced", options.trip.paced},
                                    {"endpoint", options.trip.port == 0 ? "ipc" : "tcp with CURVE, loopback"},
                                    {"environment", measurement::environment()}}
                  << "\n";
    } else if (!why_no_nccl.empty()) {
        std::cout << "\nnccl was skipped:  " << why_no_nccl << "\n";
    }
    return 0;
}

}  // namespace

void add_fan_out_bench(CLI::App& bench, int& status) {
    auto* fan_out = bench.add_subcommand(
        "fan_out", "Compare fan-out of records to other processes with a bare ZMQ PUB/SUB");
    auto options = std::make_shared<FanOutBenchOptions>();
    fan_out->footer(
        "Latency: one record at a time, from the root's call until a leaf has it. Rate: a burst of records,\n"
        "until the last leaf has the last record. The bare PUB/SUB has no window, no receipts and does not "
        "detect\n"
        "dead peers.\n"
        "Examples:\n"
        "  croupier bench fan_out\n"
        "  croupier bench fan_out --leaves 3 --bytes 1024 --tcp-port 7009 --json");
    fan_out->add_option("--bytes", options->sizes, "Record sizes")
        ->capture_default_str()
        ->check(CLI::Range(8U, 64U << 20U));
    fan_out->add_option("--leaves", options->trip.leaves, "Number of leaves")
        ->capture_default_str()
        ->check(CLI::Range(1, 16));
    fan_out->add_option("--rounds", options->rounds, "Rounds per method")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    fan_out->add_option("--paced", options->trip.paced, "Records per round for the latency")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    fan_out->add_option("--burst", options->trip.burst, "Most records in a burst")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    fan_out->add_option("--tcp-port", options->trip.port,
                        "Use tcp with CURVE on this port of 127.0.0.1 instead of ipc");
    fan_out->add_flag("--json", options->json, "Print one JSON object");
    fan_out->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
