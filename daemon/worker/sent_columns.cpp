#include "daemon/worker/sent_columns.h"

#include <atomic>

#include "shm/logits_publisher.h"

namespace croupier::daemon {
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

void SentColumns::look() {
    const proto::Geometry& geometry = segment_->geometry();
    if (geometry.lean_blocks == 0 || !proto::LeanOrder::has_stamps(step_->columns)) return;
    parts_ = ~0U;
    for (std::uint32_t rank = 0; rank < geometry.tp && parts_ != 0; ++rank)
        parts_ &= parts_of(*segment_, *step_, rank);
    if (parts_ != 0 && !order_) order_.emplace(step_->columns);
}

}  // namespace croupier::daemon
