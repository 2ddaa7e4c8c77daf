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

// Of the burst of one trip: what a large record's would be must fit into memory, and a small one's take long
// enough.
constexpr std::uint64_t kBurstBytes = 256U << 20U;

struct FanOutBenchOptions {
    TripOptions trip;
    std::vector<std::uint32_t> sizes = {64, 4096, 65536, 1U << 20U};
    std::uint32_t rounds = 5;
    bool json = false;
};

struct Measured {
    std::vector<std::uint64_t> latency_ns;
    std::vector<double> rates;  // of each round
    std::string why_not;        // it could not be measured

    double rate() const {
        std::vector<double> sorted = rates;
        std::sort(sorted.begin(), sorted.end());
        return sorted.empty() ? 0 : sorted[sorted.size() / 2];
    }
};

using Row = std::map<Way, Measured>;

// By turns, so that what else the host does meets all of them.
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
                // NCCL takes a GPU for each member; without the others there is no measurement.
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
        std::cout << fmt::format("{:>8}  {:<14} {:>9} {:>9} {:>9} {:>11} {:>9} {:>9}\n", "bytes", "way",
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
        std::cout << "\nnccl was not measured: " << why_no_nccl << "\n";
    }
    return 0;
}

}  // namespace

void add_fan_out_bench(CLI::App& bench, int& status) {
    auto* fan_out = bench.add_subcommand("fan_out", "Records to other processes, beside a bare ZMQ PUB/SUB");
    auto options = std::make_shared<FanOutBenchOptions>();
    fan_out->footer(
        "Latency is that of one record at a time, from the root's call to a leaf's hand; the rate is that of "
        "a burst, until\n"
        "the last leaf has the last record. The bare PUB/SUB has no window, no receipts and no word of a "
        "peer's death.\n"
        "Examples:\n"
        "  croupier bench fan_out\n"
        "  croupier bench fan_out --leaves 3 --bytes 1024 --tcp-port 7009 --json");
    fan_out->add_option("--bytes", options->sizes, "Sizes of a record")
        ->capture_default_str()
        ->check(CLI::Range(8U, 64U << 20U));
    fan_out->add_option("--leaves", options->trip.leaves, "Members beside the root")
        ->capture_default_str()
        ->check(CLI::Range(1, 16));
    fan_out->add_option("--rounds", options->rounds, "Of each way, by turns")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    fan_out->add_option("--paced", options->trip.paced, "Records of a round that are timed")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    fan_out->add_option("--burst", options->trip.burst, "Records of a round's burst, at most")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    fan_out->add_option("--tcp-port", options->trip.port,
                        "Over tcp on this port of 127.0.0.1, with CURVE, instead of ipc");
    fan_out->add_flag("--json", options->json, "One JSON object");
    fan_out->callback([options, &status] { status = run(*options); });
}

}  // namespace croupier::bench
