#include "gpu_writer/decided_tokens.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "shm/step_window.h"

namespace croupier::gpu_writer {
namespace {

// Asked after bits of the slot and decisions are read: while the slot is the step's, so were they. A client
// that reuses the slot clears its bits before it publishes, and no sampler sets them before that.
bool still_holds(const shm::Segment& segment, std::uint64_t step) {
    // SYNC: acquire; what was read before is not read after.
    std::atomic_thread_fence(std::memory_order_acquire);
    // SYNC: acquire; pairs with the release in SchedulePublisher::publish.
    return segment.header().published.load(std::memory_order_acquire) <= step + segment.geometry().slots;
}

}  // namespace

StepState state_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns) {
    const bool complete = shm::step_complete(segment, segment.slot_of(step), columns);
    if (!still_holds(segment, step)) return StepState::overwritten;
    return complete ? StepState::decided : StepState::undecided;
}

void DecidedTokens::begin(std::uint64_t step, std::uint32_t columns) {
    step_ = step;
    columns_ = columns;
    left_ = columns;
    std::fill(given_.begin(), given_.end(), 0);
}

std::optional<std::span<const DecidedTokens::Token>> DecidedTokens::more() {
    found_.clear();
    const std::uint32_t slot = segment_.slot_of(step_);
    const bool refused = shm::step_refusal(segment_, slot) != proto::DecisionError::none;
    for (std::uint32_t word = 0; !refused && word * 64 < columns_; ++word) take(word);
    if ((refused || !found_.empty()) && !still_holds(segment_, step_)) return std::nullopt;
    if (refused) return give_up();
    for (const Token& each : found_) given_[each.column / 64] |= std::uint64_t{1} << (each.column % 64);
    left_ -= static_cast<std::uint32_t>(found_.size());
    return std::span<const Token>(found_);
}

void DecidedTokens::take(std::uint32_t word) {
    const std::uint32_t slot = segment_.slot_of(step_);
    // SYNC: acquire; pairs with the commit's: the decision is there with its bit.
    std::uint64_t bits = segment_.committed(slot)[word].load(std::memory_order_acquire) & ~given_[word];
    for (; bits != 0; bits &= bits - 1) {
        const std::uint32_t column = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
        if (column >= columns_) return;
        const proto::Decision decision = segment_.decisions(slot)[column];
        found_.push_back({column, decision.token});
    }
}

std::span<const DecidedTokens::Token> DecidedTokens::give_up() {
    found_.clear();
    for (std::uint32_t column = 0; column < columns_; ++column) {
        if ((given_[column / 64] >> (column % 64) & 1U) == 0) found_.push_back({column, -1});
    }
    left_ = 0;
    return found_;
}

}  // namespace croupier::gpu_writer
