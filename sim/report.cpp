#include "sim/report.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "proto/checksum.h"

namespace croupier::sim {
namespace {

const char* name_of(Transport transport) {
    return transport == Transport::lean ? "lean" : "rows";
}

Latency latency_of(const LatencyHistogram& histogram) {
    const auto us = [](std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; };
    return {us(histogram.percentile_ns(0.50)), us(histogram.percentile_ns(0.99)),
            us(histogram.percentile_ns(0.999)), us(histogram.max_ns())};
}

// A checksum of each request's length and tokens, in request order.
class Digest {
  public:
    void add(std::uint32_t value) { checksum_.add(&value, sizeof(value)); }
    std::string text() const {
        char digits[17];
        (void)std::snprintf(digits, sizeof(digits), "%016llx",
                            static_cast<unsigned long long>(checksum_.value()));
        return digits;
    }

  private:
    proto::Checksum checksum_;
};

std::string digest_of(const World& world) {
    Digest digest;
    for (std::uint32_t request = 0; request < world.plan.size(); ++request) {
        const std::uint32_t count = world.ledger.count(request);
        digest.add(count);
        for (std::uint32_t position = 0; position < count; ++position) {
            digest.add(static_cast<std::uint32_t>(world.ledger.entry(request, position).token));
        }
    }
    return digest.text();
}

nlohmann::ordered_json latency_json(const Latency& latency) {
    return {{"p50", latency.p50_us},
            {"p99", latency.p99_us},
            {"p99_9", latency.p999_us},
            {"max", latency.max_us}};
}

nlohmann::ordered_json daemon_json(const DaemonView& daemon) {
    // Bucket b > 0 counts times from 0.25 * 2^(b - 1) us to twice that.
    return {{"samplers", daemon.samplers},
            {"columns", daemon.columns},
            {"column_mean_us", daemon.column_mean_us},
            {"column_buckets", daemon.column_buckets},
            {"supervisor_bytes", daemon.supervisor_bytes},
            {"sampler_bytes", daemon.sampler_bytes}};
}

}  // namespace

Report collect_report(const World& world) {
    const LedgerHead& head = world.ledger.head();
    Report report;
    report.requests = world.plan.size();
    for (std::uint32_t request = 0; request < world.plan.size(); ++request) {
        const std::uint32_t count = world.ledger.count(request);
        report.tokens += count;
        report.unfinished += world.ledger.ended(request) ? 0U : 1U;
        const bool failed = count > 0 && world.ledger.entry(request, count - 1).error != 0;
        report.failed += failed ? 1U : 0U;
        report.failed_as_intended += failed && world.plan[request].may_fail() ? 1U : 0U;
    }
    report.steps = head.steps.load();
    report.verified = head.verified.load();
    report.mismatched = head.mismatched.load();
    report.lost = head.gaps.load();
    report.duplicated = head.duplicated.load();
    report.recovered = head.recovered.load();
    report.readmitted = head.readmitted.load();
    report.truncated = head.truncated.load();
    report.stop_strings = head.stop_strings.load();
    report.json_values = head.json_values.load();
    report.loops = head.loops.load();
    report.replayed = head.replayed.load();
    report.rolled_back = head.rolled_back.load();
    report.block_requests = head.block_requests.load();
    report.late_steps = head.late_steps.load();
    report.step_latency = latency_of(head.step_latency);
    report.verification = world.options.verification;
    report.decision = latency_of(head.decision_latency);
    report.full_batch = latency_of(head.full_batch_latency);
    report.full_batches = head.full_batch_latency.count();
    report.hbm_to_hbm = latency_of(head.gpu_latency);
    const std::uint64_t last = head.last_step_ns.load();
    const std::uint64_t first = head.first_step_ns.load();
    report.serving_s = last > first ? static_cast<double>(last - first) * 1e-9 : 0.0;
    report.tokens_per_s =
        report.serving_s > 0.0 ? static_cast<double>(report.tokens) / report.serving_s : 0.0;
    report.streams_digest = digest_of(world);
    report.first_mismatch = head.first_mismatch;
    return report;
}

std::string to_json(const Report& report, const SimOptions& options) {
    nlohmann::ordered_json json = {
        {"ok", report.passed()},
        {"requests", report.requests},
        {"unfinished", report.unfinished},
        {"steps", report.steps},
        {"tokens", report.tokens},
        {"verified", report.verified},
        {"mismatched", report.mismatched},
        {"lost", report.lost},
        {"duplicated", report.duplicated},
        {"recovered", report.recovered},
        {"readmitted", report.readmitted},
        {"truncated", report.truncated},
        {"stop_strings", report.stop_strings},
        {"json_values", report.json_values},
        {"loops", report.loops},
        {"replayed", report.replayed},
        {"rolled_back", report.rolled_back},
        {"block_requests", report.block_requests},
        {"late_steps", report.late_steps},
        {"failed_requests", report.failed},
        {"kills", report.kills},
        {"left_in_shm", report.left_in_shm},
        {"tokens_per_s", report.tokens_per_s},
        {"serving_s", report.serving_s},
        {"wall_s", report.wall_s},
        {"step_latency_us", latency_json(report.step_latency)},
        {"decision_us", latency_json(report.decision)},
        {"full_batches", report.full_batches},
        {"full_batch_us", latency_json(report.full_batch)},
        {"streams_digest", report.streams_digest},
        {"engine",
         {{"vocab", options.vocab},
          {"batch", options.batch},
          {"tp", options.tp},
          {"pp", options.pp},
          {"in_flight", options.steps_in_flight()},
          {"ahead", options.ahead},
          {"draft", options.draft},
          {"replay", options.replay},
          {"tile", options.tile},
          {"summaries", options.summaries},
          {"transport", name_of(options.transport)},
          {"writer", options.on_gpu ? "cuda" : "host"},
          {"rows", options.rows_copied ? "copied" : "lent"},
          {"graphs", options.replays_graphs},
          {"samplers", options.samplers},
          {"threads_per_sampler", options.threads_per_sampler},
          {"seed", options.seed}}},
    };
    if (report.daemon.columns > 0) json["daemon"] = daemon_json(report.daemon);
    if (options.on_gpu) json["hbm_to_hbm_us"] = latency_json(report.hbm_to_hbm);
    if (!report.first_mismatch.empty()) json["first_mismatch"] = report.first_mismatch;
    if (!report.fault.empty()) json["fault"] = report.fault;
    if (report.interrupted) json["interrupted"] = true;
    return json.dump();
}

void write_streams(const World& world, const std::string& path) {
    std::ofstream file(path);
    for (std::uint32_t request = 0; request < world.plan.size(); ++request) {
        file << request << ':';
        for (std::uint32_t i = 0; i < world.ledger.count(request); ++i)
            file << ' ' << world.ledger.entry(request, i).token;
        file << '\n';
    }
    if (!file.flush()) throw std::runtime_error("cannot write the streams to " + path);
}

}  // namespace croupier::sim
