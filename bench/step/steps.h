// One thread decides the columns of a step: all of the case `full`, or with another case in the first column.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/decide/bench_sequence.h"
#include "measurement/percentiles.h"

namespace croupier::bench {

struct StepPair {
    measurement::Percentiles alike;  // all columns have the case `full`
    measurement::Percentiles mixed;  // one column has another case
    double ratio() const { return mixed.p50 / alike.p50; }
};

class Steps {
  public:
    // The text must have one token per column more than the history.
    Steps(const measurement::BenchRows& rows, std::span<const std::int32_t> text, std::uint32_t history,
          std::uint32_t columns);

    // Measures `steps` steps of each kind with the first `columns` columns, alternating, so that other load
    // affects both.
    StepPair measure(const CaseRequest& slow, std::uint32_t columns, std::uint32_t steps, bool summarised);

  private:
    std::uint64_t step(BenchSequence& first, std::uint32_t columns, std::uint32_t number, bool summarised);

    measurement::LaidRows rows_;
    std::span<const std::int32_t> first_history_;
    CaseRequest full_;
    sampler::Workspace workspace_;
    std::vector<BenchSequence> sequences_;  // one per column
    BenchSequence slow_;                    // for the first column
};

}  // namespace croupier::bench
