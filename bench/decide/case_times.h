// What the decisions of a case cost, beside plain reads of the rows that they decide.
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

struct CaseTimes {
    measurement::Percentiles plain;
    measurement::Percentiles summarised;
    // How decisions were reached, and how many: "asked > classes" where bounds left the question open.
    std::map<std::string, std::uint64_t> paths;
    // Of lean rows, which take the place of those with summaries: all tries of a decision count.
    std::uint64_t lean_decisions = 0;
    std::uint64_t lean_tries = 0;
    std::uint64_t blocks_sent = 0;
    std::uint64_t blocks_asked = 0;
};

class CaseTimer {
  public:
    // The text must be longer by a token a row than the longest history.
    CaseTimer(const measurement::BenchRows& rows, std::span<const std::int32_t> text,
              std::uint32_t max_history);

    // Rows with summaries are lean ones from now on.
    void use(LeanRows& lean) { lean_ = &lean; }

    // Each row so many rounds, the rows taking turns; a round reads all rows, then decides them without
    // summaries, then with them.
    CaseTimes measure(const CaseRequest& what, const measurement::LaidRows& rows, std::uint32_t history,
                      std::uint32_t rounds, std::vector<std::uint64_t>& read_times);

  private:
    void read_rows(const measurement::LaidRows& rows, std::vector<std::uint64_t>& times);
    void decide_lean(std::uint32_t round, std::vector<std::uint64_t>& times, CaseTimes& measured);
    void decide_rows(const measurement::LaidRows& rows, std::uint32_t round, bool summarised,
                     std::vector<std::uint64_t>& times, CaseTimes& measured);

    std::span<const std::int32_t> text_;
    sampler::Workspace workspace_;
    std::vector<BenchSequence> sequences_;  // one a row
    LeanRows* lean_ = nullptr;
    volatile std::uint64_t sink_ = 0;
};

}  // namespace croupier::bench
