#include "daemon/worker/step_logits.h"

#include <atomic>

#include "daemon/worker/stage_clock.h"
#include "shm/clock.h"
#include "shm/logits_publisher.h"

namespace croupier::daemon {

using proto::Stage;

namespace {

std::uint32_t parts_of(const shm::Segment& segment, const CheckedStep& step, std::uint32_t rank) {
    const proto::ReadyCell& ready = segment.ready(step.slot, rank);
    const std::uint64_t word = shm::lean_word(segment, step.step, rank).pack();
    std::uint32_t parts = 0;
    for (std::uint32_t part = 0; part < proto::kLeanStamps; ++part) {
        // SYNC: acquire; pairs with the writer's store, a GPU's too, behind all of the part's columns.
        if (ready.stamps[part].load(std::memory_order_acquire) == word) parts |= 1U << part;
    }
    return parts;
}

}  // namespace

bool slices_complete(const shm::Segment& segment, const CheckedStep& step) {
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        if (!shm::slice_ready(segment, step.step, rank)) return false;
    }
    return true;
}

bool logits_complete(const shm::Segment& segment, const CheckedStep& step) {
    if (!slices_complete(segment, step)) return false;
    return !step.randoms_supplied || shm::randoms_ready(segment, step.step);
}

std::uint64_t note_logits_ready(const shm::Segment& segment, const CheckedStep& step,
                                proto::SamplerEntry& entry) {
    const std::uint64_t now = shm::monotonic_ns();
    auto& ready = segment.decision_head(step.slot).logits_ready_ns;
    std::uint64_t unset = ready.load(std::memory_order_relaxed);
    if (unset != 0 || !ready.compare_exchange_strong(unset, now, std::memory_order_seq_cst)) return now;
    // The slot may be a later step's by now, whose logits are not there.
    std::uint64_t noted = now;
    if (segment.schedule(step.slot).step != step.step) ready.compare_exchange_strong(noted, 0);
    const std::uint64_t published = segment.schedule(step.slot).published_ns;
    record_stage(entry, Stage::logits_wait, now > published ? now - published : 0);
    return now;
}

std::uint64_t ready_since(const shm::Segment& segment, const CheckedStep& step, proto::SamplerEntry& entry) {
    const auto& ready = segment.decision_head(step.slot).logits_ready_ns;
    const std::uint64_t noted = ready.load(std::memory_order_relaxed);
    if (noted != 0 || !logits_complete(segment, step)) return noted;
    (void)note_logits_ready(segment, step, entry);
    return ready.load(std::memory_order_relaxed);
}

bool answers_come(const shm::Segment& segment, std::uint32_t slot) {
    constexpr std::uint64_t kWithinNs = 2'000'000;
    if (!segment.geometry().is_lean()) return false;
    const std::uint64_t ready = segment.decision_head(slot).logits_ready_ns.load(std::memory_order_relaxed);
    return shm::monotonic_ns() - ready < kWithinNs;
}

void SentColumns::look() {
    const proto::Geometry& geometry = segment_->geometry();
    if (geometry.lean_blocks == 0 || !proto::LeanOrder::has_stamps(step_->columns)) return;
    parts_ = ~0U;
    for (std::uint32_t rank = 0; rank < geometry.tp && parts_ != 0; ++rank)
        parts_ &= parts_of(*segment_, *step_, rank);
    if (parts_ != 0 && !order_) order_.emplace(step_->columns);
}

std::uint32_t SentColumns::part_among_windows(std::uint32_t column) const {
    const std::uint32_t row = segment_->schedule_columns(step_->slot)[column].load().row;
    return proto::WindowOrder(*order_).part_of(column, row);
}

SentColumn::SentColumn(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column)
    : segment_(segment),
      step_(step),
      column_(column),
      // Before the look at what is there: later writers are told from those that sent it.
      epochs_(segment.geometry().is_lean() ? shm::writer_epochs(segment) : 0),
      sent_(segment, step) {}

bool SentColumn::awaits_blocks() const {
    return is_lean() && requests().awaited(column_);
}

bool SentColumn::is_there() {
    if (!is_lean() || slices_complete(segment_, step_)) return true;
    sent_.look();
    return sent_.has(column_);
}

bool SentColumn::is_over() {
    if (!is_lean()) return false;
    // SYNC: acquire; what was read of the row was read before the words are. Pairs with the release fence in
    // LogitsPublisher::begin_epoch.
    std::atomic_thread_fence(std::memory_order_acquire);
    return !is_there() || shm::writer_epochs(segment_) != epochs_;
}

}  // namespace croupier::daemon
