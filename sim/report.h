// The report of a run, also as JSON; report_text.h formats it for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/daemon_view.h"
#include "sim/world.h"

namespace croupier::sim {

struct Latency {
    double p50_us = 0.0;
    double p99_us = 0.0;
    double p999_us = 0.0;
    double max_us = 0.0;
};

struct Report {
    std::uint64_t requests = 0;
    std::uint64_t unfinished = 0;
    std::uint64_t steps = 0;
    std::uint64_t tokens = 0;
    std::uint64_t verified = 0;
    std::uint64_t mismatched = 0;
    Verification verification = Verification::all;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t recovered = 0;
    std::uint64_t readmitted = 0;
    std::uint64_t truncated = 0;
    std::uint64_t stop_strings = 0;  // requests that a stop string ended
    std::uint64_t json_values = 0;   // that a JSON value ended
    std::uint64_t loops = 0;         // that a loop ended
    std::uint64_t replayed = 0;
    std::uint64_t rolled_back = 0;
    std::uint64_t block_requests = 0;
    std::uint64_t late_steps = 0;          // steps whose tokens came too late for a waiting GPU stream
    std::uint64_t failed = 0;              // requests that ended with a decision error
    std::uint64_t failed_as_intended = 0;  // those of them that were intended to fail
    std::uint64_t kills = 0;
    std::size_t left_in_shm = 0;
    double tokens_per_s = 0.0;
    double serving_s = 0.0;
    double wall_s = 0.0;
    Latency step_latency;
    Latency decision;
    Latency full_batch;  // decisions of steps in which the batch was full
    std::uint64_t full_batches = 0;
    DaemonView daemon;
    Latency hbm_to_hbm;  // 0 if no GPU computed the logits
    std::string streams_digest;
    std::string first_mismatch;
    std::string fault;         // why the run was aborted; empty if it was not
    bool interrupted = false;  // by SIGINT or SIGTERM

    bool passed() const { return is_correct() && !interrupted && unfinished == 0 && verified_enough(); }
    bool only_interrupted() const { return is_correct() && interrupted; }
    bool is_correct() const {
        return fault.empty() && mismatched == 0 && lost == 0 && duplicated == 0 && left_in_shm == 0;
    }
    bool verified_enough() const {
        if (verification == Verification::sample) return verified > 0;
        return verified == tokens || verification == Verification::never;
    }
};

// Fills in what the ledger knows. The caller sets daemon, kills, left_in_shm, wall_s, fault and interrupted.
Report collect_report(const World& world);
std::string to_json(const Report& report, const SimOptions& options);
// One line a request: its index, then its tokens. Throws std::runtime_error when the file cannot be written.
void write_streams(const World& world, const std::string& path);

}  // namespace croupier::sim
