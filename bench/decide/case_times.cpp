#include "bench/decide/case_times.h"

#include <chrono>

#include "measurement/read_once.h"

namespace croupier::bench {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Work>
std::uint64_t nanoseconds_of(Work work) {
    const auto begin = Clock::now();
    work();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

}  // namespace

std::string path_of(const sampler::Answer& answer) {
    const std::string path = request::name_of(answer.path);
    const bool told = answer.left_open == request::DecisionPath::none;
    return told ? path : request::name_of(answer.left_open) + (" > " + path);
}

CaseTimer::CaseTimer(const measurement::BenchRows& rows, std::span<const std::int32_t> text,
                     std::uint32_t max_history)
    : text_(text), workspace_(rows.vocab()) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) sequences_.emplace_back(rows.vocab(), max_history);
}

CaseTimes CaseTimer::measure(const CaseRequest& what, const measurement::LaidRows& rows,
                             std::uint32_t history, std::uint32_t rounds,
                             std::vector<std::uint64_t>& read_times) {
    for (std::uint32_t row = 0; row < rows.count(); ++row)
        sequences_[row].begin(what, text_.subspan(row, history));
    CaseTimes measured;
    std::vector<std::uint64_t> plain;
    std::vector<std::uint64_t> summarised;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        read_rows(rows, read_times);
        decide_rows(rows, round, false, plain, measured);
        if (lean_ != nullptr) {
            decide_lean(round, summarised, measured);
        } else {
            decide_rows(rows, round, true, summarised, measured);
        }
    }
    measured.plain = measurement::percentiles_us(std::move(plain));
    measured.summarised = measurement::percentiles_us(std::move(summarised));
    return measured;
}

void CaseTimer::read_rows(const measurement::LaidRows& rows, std::vector<std::uint64_t>& times) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
        times.push_back(nanoseconds_of(
            [&] { sink_ = sink_ + measurement::read_once(rows.bytes(row), rows.row_bytes()); }));
    }
}

// All rows are written first, as by a writer on another core.
void CaseTimer::decide_lean(std::uint32_t round, std::vector<std::uint64_t>& times, CaseTimes& measured) {
    const auto rows = static_cast<std::uint32_t>(sequences_.size());
    for (std::uint32_t row = 0; row < rows; ++row)
        lean_->lay(row, sequences_[row].want(round * rows + row), sequences_[row].masks(),
                   sequences_[row].names());
    for (std::uint32_t row = 0; row < rows; ++row) {
        const std::uint32_t draw = round * rows + row;
        lean_->forget_granted(sequences_[row].want(draw));
        sequences_[row].prepare(draw);
        std::uint64_t took = 0;
        do {
            took += nanoseconds_of([&] { sequences_[row].decide(lean_->view(row), draw, workspace_); });
            ++measured.lean_tries;
            measured.blocks_asked += lean_->grant(workspace_.answer().missing);
        } while (!workspace_.answer().missing.empty());
        times.push_back(took);
        ++measured.lean_decisions;
        measured.blocks_sent += lean_->sent(row);
        sequences_[row].rewind();
    }
}

void CaseTimer::decide_rows(const measurement::LaidRows& rows, std::uint32_t round, bool summarised,
                            std::vector<std::uint64_t>& times, CaseTimes& measured) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
        const std::uint32_t draw = round * rows.count() + row;
        sequences_[row].prepare(draw);
        times.push_back(
            nanoseconds_of([&] { sequences_[row].decide(rows.view(row, summarised), draw, workspace_); }));
        ++measured.paths[path_of(workspace_.answer())];
        sequences_[row].rewind();
    }
}

}  // namespace croupier::bench
