#include "bench/step/steps.h"

#include <ctime>

namespace croupier::bench {
namespace {

// CPU time of the thread, because other programs run during the milliseconds of a step.
std::uint64_t thread_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

Steps::Steps(const measurement::BenchRows& rows, std::span<const std::int32_t> text, std::uint32_t history,
             std::uint32_t columns)
    : rows_(rows, proto::Dtype::bf16, measurement::ranks_of("1"), false),
      first_history_(text.first(history)),
      full_(chosen_cases({"full"}).front(), rows.vocab(), 0.8),
      workspace_(rows.vocab()),
      slow_(rows.vocab(), history) {
    for (std::uint32_t column = 0; column < columns; ++column) {
        sequences_.emplace_back(rows.vocab(), history);
        sequences_.back().begin(full_, text.subspan(column, history));
    }
}

StepPair Steps::measure(const CaseRequest& slow, std::uint32_t columns, std::uint32_t steps,
                        bool summarised) {
    slow_.begin(slow, first_history_);
    std::vector<std::uint64_t> alike;
    std::vector<std::uint64_t> mixed;
    for (std::uint32_t number = 0; number < steps; ++number) {
        alike.push_back(step(sequences_.front(), columns, number, summarised));
        mixed.push_back(step(slow_, columns, number, summarised));
    }
    return {measurement::percentiles_us(std::move(alike)), measurement::percentiles_us(std::move(mixed))};
}

// Rows rotate between columns, so that a slow row is not always that of the slow request.
std::uint64_t Steps::step(BenchSequence& first, std::uint32_t columns, std::uint32_t number,
                          bool summarised) {
    const std::uint64_t begin = thread_ns();
    for (std::uint32_t column = 0; column < columns; ++column) {
        BenchSequence& sequence = column == 0 ? first : sequences_[column];
        sequence.decide(rows_.view((column + number) % rows_.count(), summarised), number, workspace_);
    }
    const std::uint64_t end = thread_ns();
    for (BenchSequence& each : sequences_) each.rewind();
    first.rewind();
    return end - begin;
}

}  // namespace croupier::bench
