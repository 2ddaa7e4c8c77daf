#include "gpu_writer/step_writer.h"

#include <string>
#include <thread>

#include "gpu_writer/decided_tokens.h"
#include "shm/step_window.h"
#include "shm/wait_strategy.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// A step's decisions follow its logits within a few milliseconds, and a GPU idles until they are there.
constexpr shm::WaitSettings kTokenPatience{shm::WaitMode::adaptive, std::chrono::milliseconds(5),
                                           std::chrono::microseconds(50)};

}  // namespace

shm::Result<StepWriter::Begin> StepWriter::begin(std::uint64_t step) {
    if (begun() - finished() >= rank_writer_.geometry().slots) return Begin::busy;
    CROUPIER_TRY_VALUE(begun_step, steps_.begin(step));
    if (!begun_step) return Begin::busy;
    if (auto queued = queue(*begun_step); !queued) {
        steps_.take_back(*begun_step);
        return queued.error();
    }
    latest_[rank_writer_.segment().slot_of(step)] = *begun_step;
    return Begin::begun;
}

shm::Result<bool> StepWriter::windows_need_inputs(std::uint64_t step) {
    return shm::fail(Errc::bad_argument, "step " + std::to_string(step) +
                                             " has windows of several rows, and `inputs` is null: give "
                                             "the token that each row was computed from");
}

shm::Result<bool> StepWriter::randoms_need_rows() {
    return shm::fail(Errc::bad_argument,
                     "a session of the transport lean takes no randoms: open it with the transport rows");
}

shm::Result<bool> StepWriter::abandon() {
    CROUPIER_TRY(settle());
    forget_after(finished());
    steps_.abandon(finished());
    // What an enqueue that failed had published of its slice must not pass for part of the next attempt's.
    return rank_writer_.begin_anew();
}

// How many columns a step has is known since it was begun: its record may be the next step's already.
shm::Result<BegunStep> StepWriter::begun_step(std::uint64_t step) const {
    const BegunStep& begun_step = latest_[rank_writer_.segment().slot_of(step)];
    if (begun_step.ticket != 0 && begun_step.step == step) return begun_step;
    return shm::fail(Errc::bad_argument, "step " + std::to_string(step) +
                                             " is not the last that this writer began in its slot: it "
                                             "began none there, or a later one");
}

shm::Result<StepState> StepWriter::state_of_begun(std::uint64_t step) const {
    CROUPIER_TRY_VALUE(begun, begun_step(step));
    const StepState state = state_of(rank_writer_.segment(), step, begun.columns);
    if (state == StepState::overwritten) {
        return shm::fail(Errc::bad_argument, "the slot of step " + std::to_string(step) +
                                                 " holds a later step: the scheduler has its tokens");
    }
    return state;
}

shm::Result<bool> StepWriter::enqueue_awaited_tokens(void* stream, std::uint64_t step,
                                                     std::chrono::milliseconds timeout,
                                                     std::int32_t* tokens) {
    CROUPIER_TRY_VALUE(begun, begun_step(step));
    return await_tokens(stream, begun, timeout, tokens);
}

shm::Result<StepWriter::Wait> StepWriter::wait_tokens(std::uint64_t step,
                                                      std::chrono::milliseconds timeout) const {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    shm::WaitStrategy patience(kTokenPatience);
    while (true) {
        // First: what was decided before the end is there.
        const bool ended = rank_writer_.session_ended();
        CROUPIER_TRY_VALUE(state, state_of_begun(step));
        if (state == StepState::decided) return Wait::decided;
        if (ended) return Wait::ended;
        if (timeout == timeout.zero() || std::chrono::steady_clock::now() >= deadline) return Wait::timed_out;
        patience.idle(0, [](std::chrono::nanoseconds longest) { std::this_thread::sleep_for(longest); });
    }
}

shm::Result<bool> StepWriter::enqueue_tokens(void* stream, std::uint64_t step, std::int32_t* tokens) {
    const shm::Segment& segment = rank_writer_.segment();
    CROUPIER_TRY_VALUE(state, state_of_begun(step));
    if (state == StepState::undecided) {
        return shm::fail(Errc::bad_argument,
                         "step " + std::to_string(step) + " is not decided yet: wait for its tokens first");
    }
    const std::uint32_t slot = segment.slot_of(step);
    if (shm::step_refusal(segment, slot) != proto::DecisionError::none) {
        return shm::fail(Errc::refused,
                         "step " + std::to_string(step) +
                             " was refused whole: it has no tokens, and the scheduler knows why");
    }
    return send_tokens(stream, segment.decisions(slot).part(0, latest_[slot].columns), tokens);
}

}  // namespace croupier::gpu_writer
