// A step's columns decided one after the other by one thread: all of the case `full`, or the first of a case
// that is slow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/decide/bench_sequence.h"
#include "measurement/percentiles.h"

namespace croupier::bench {

struct StepPair {
    measurement::Percentiles alike;  // all columns are `full`
    measurement::Percentiles mixed;  // one is another case's
    double ratio() const { return mixed.p50 / alike.p50; }
};

class Steps {
  public:
    // The text must be longer by a token a column than the history.
    Steps(const measurement::BenchRows& rows, std::span<const std::int32_t> text, std::uint32_t history,
          std::uint32_t columns);

    // So many steps of either kind over the first `columns` columns, in turns: what disturbs one disturbs the
    // other too.
    StepPair measure(const CaseRequest& slow, std::uint32_t columns, std::uint32_t steps, bool summarised);

  private:
    std::uint64_t step(BenchSequence& first, std::uint32_t columns, std::uint32_t number, bool summarised);

    measurement::LaidRows rows_;
    std::span<const std::int32_t> first_history_;
    CaseRequest full_;
    sampler::Workspace workspace_;
    std::vector<BenchSequence> sequences_;  // a column's
    BenchSequence slow_;                    // may stand in the first column
};

}  // namespace croupier::bench
