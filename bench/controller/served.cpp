#include "bench/controller/served.h"

#include <chrono>

#include "measurement/read_once.h"
#include "proto/philox.h"

namespace croupier::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kShortest = 32;
constexpr std::uint32_t kLongest = 96;

std::uint64_t ns_since(Clock::time_point begin) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

}  // namespace

Served::Served(const Trace& trace, const proto::SamplingParams& params, std::uint32_t choice)
    : trace_(trace),
      params_(params),
      choice_(choice),
      workspace_(trace.parts.front()->vocab()),
      state_(trace.parts.front()->vocab(), 8) {
    state_.begin(params_, {});
    for (Sequence& sequence : sequences_) admit(sequence);
}

Served::Served(const Trace& trace, const proto::SamplingParams& params,
               const hot_sets::HotController& controller)
    : Served(trace, params, controller.present()) {
    controller_ = controller;
}

// The lengths are the same for every policy.
void Served::admit(Sequence& sequence) {
    const std::uint32_t random = proto::random_at(7, static_cast<std::uint32_t>(admitted_++), 0, 0);
    sequence.left = kShortest + random % (kLongest - kShortest);
    sequence.choice = choice_;
    if (!controller_) return;
    const bool tries = admitted_ % proto::kHotTrialShare == 0;
    sequence.choice = tries ? controller_->tried() : controller_->present();
}

std::uint64_t Served::draw(const Sequence& sequence) {
    const measurement::BenchRows& rows = trace_.at(served_);
    constexpr std::uint64_t kRowSeed = 11;
    const auto position = static_cast<std::uint32_t>(served_);
    const std::uint32_t row = proto::random_at(kRowSeed, position, 0, 0) % rows.count();
    sampler::Request request;
    request.params = &params_;
    request.max_length = 8;
    request.position_shift = position;
    request.random = proto::random_at(params_.seed, position, params_.child, 0);
    request.hot_blocks = rows.hot_blocks(proto::hot_size(sequence.choice));
    const sampler::RowView view = rows.view(row, true);
    // Reads the row first, so that it is always cached. Otherwise repeated draws would keep a small hot set
    // closer than in practice.
    sink_ += measurement::read_once(rows.row(row), rows.row_bytes());
    const auto begin = Clock::now();
    (void)sampler::decide(view, request, state_, workspace_);
    return ns_since(begin);
}

void Served::serve(std::uint64_t draws) {
    for (std::uint64_t i = 0; i < draws && served_ < trace_.draws; ++i) {
        Sequence& sequence = sequences_[served_ % kSequences];
        if (sequence.left-- == 0) admit(sequence);
        const std::uint64_t ns = draw(sequence);
        ns_ += ns;
        ++served_;
        costs_[sequence.choice].draws += 1;
        costs_[sequence.choice].ns += ns;
        if (!controller_ || served_ % kDrawsBetweenLooks != 0) continue;
        const auto begin = Clock::now();
        controller_->observe(costs_);
        ns_ += ns_since(begin);
    }
}

}  // namespace croupier::bench
