// Times of a case's decisions and of plain reads of the same rows.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/decide/bench_sequence.h"
#include "bench/decide/lean_rows.h"
#include "measurement/percentiles.h"

namespace croupier::bench {

// By which path a decision was reached.
std::string path_of(const sampler::Answer& answer);

struct CaseTimes {
    measurement::Percentiles plain;
    measurement::Percentiles summarised;
    // Number of decisions by path; "asked > classes" means that a second path was needed.
    std::map<std::string, std::uint64_t> paths;
    // For lean rows, which replace rows with summaries: totals over all tries of a decision.
    std::uint64_t lean_decisions = 0;
    std::uint64_t lean_tries = 0;
    std::uint64_t blocks_sent = 0;
    std::uint64_t blocks_asked = 0;
};

class CaseTimer {
  public:
    // The text must have one token per row more than the longest history.
    CaseTimer(const measurement::BenchRows& rows, std::span<const std::int32_t> text,
              std::uint32_t max_history);

    // From now on, lean rows are measured instead of rows with summaries.
    void use(LeanRows& lean) { lean_ = &lean; }

    // Each round reads all rows, decides them without summaries, and then with summaries.
    CaseTimes measure(const CaseRequest& what, const measurement::LaidRows& rows, std::uint32_t history,
                      std::uint32_t rounds, std::vector<std::uint64_t>& read_times);

  private:
    void read_rows(const measurement::LaidRows& rows, std::vector<std::uint64_t>& times);
    void decide_lean(std::uint32_t round, std::vector<std::uint64_t>& times, CaseTimes& measured);
    void decide_rows(const measurement::LaidRows& rows, std::uint32_t round, bool summarised,
                     std::vector<std::uint64_t>& times, CaseTimes& measured);

    std::span<const std::int32_t> text_;
    sampler::Workspace workspace_;
    std::vector<BenchSequence> sequences_;  // one per row
    LeanRows* lean_ = nullptr;
    volatile std::uint64_t sink_ = 0;
};

}  // namespace croupier::bench
