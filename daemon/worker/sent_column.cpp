#include "daemon/worker/sent_column.h"

#include <atomic>

#include "daemon/worker/step_logits.h"

namespace croupier::daemon {

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
