#include "bench/decide/case_times.h"

#include <chrono>

#include "bench/decide/read_once.h"

namespace croupier::bench {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Work>
std::uint64_t nanoseconds_of(Work work) {
    const auto begin = Clock::now();
    work();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

std::string way_of(const sampler::Answer& answer) {
    const std::string path = sampler::name_of(answer.path);
    const bool told = answer.left_open == sampler::Path::none;
    return told ? path : sampler::name_of(answer.left_open) + (" > " + path);
}

}  // namespace

CaseTimer::CaseTimer(const BenchRows& rows, std::span<const std::int32_t> text, std::uint32_t max_history)
    : text_(text), workspace_(rows.vocab()) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) sequences_.emplace_back(rows.vocab(), max_history);
}

CaseTimes CaseTimer::measure(const CaseRequest& what, const LaidRows& rows, std::uint32_t history,
                             std::uint32_t rounds, std::vector<std::uint64_t>& read_times) {
    for (std::uint32_t row = 0; row < rows.count(); ++row)
        sequences_[row].begin(what, text_.subspan(row, history));
    CaseTimes measured;
    std::vector<std::uint64_t> plain;
    std::vector<std::uint64_t> summarised;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        read_rows(rows, read_times);
        decide_rows(rows, round, false, plain, measured);
        decide_rows(rows, round, true, summarised, measured);
    }
    measured.plain = percentiles_us(std::move(plain));
    measured.summarised = percentiles_us(std::move(summarised));
    return measured;
}

void CaseTimer::read_rows(const LaidRows& rows, std::vector<std::uint64_t>& times) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
        times.push_back(
            nanoseconds_of([&] { sink_ = sink_ + read_once(rows.bytes(row), rows.row_bytes()); }));
    }
}

void CaseTimer::decide_rows(const LaidRows& rows, std::uint32_t round, bool summarised,
                            std::vector<std::uint64_t>& times, CaseTimes& measured) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
        const std::uint32_t draw = round * rows.count() + row;
        sequences_[row].prepare(draw);
        times.push_back(
            nanoseconds_of([&] { sequences_[row].decide(rows, row, summarised, draw, workspace_); }));
        ++measured.paths[way_of(workspace_.answer())];
        sequences_[row].rewind();
    }
}

}  // namespace croupier::bench
