#include "daemon/worker/void_watch.h"

#include <atomic>
#include <numeric>

namespace croupier::daemon {
namespace {

// Not a sampler's own columns alone: samplers that divide a step differently may leave one to each other, and
// there is no being late for logits that need not come.
void list_all(std::vector<std::uint32_t>& columns, std::uint32_t count) {
    columns.resize(count);
    std::iota(columns.begin(), columns.end(), 0U);
}

}  // namespace

std::vector<std::uint32_t>& VoidWatch::look(const shm::Segment& segment, const CheckedStep& step) {
    const auto& header = segment.header();
    // SYNC: acquire; pairs with the releases in revise() and StepClaims::announce: what they tell of is seen.
    const std::uint32_t revisions = header.revisions.load(std::memory_order_acquire);
    const std::uint32_t bell = header.decided_bell.load(std::memory_order_acquire);
    Slot& slot = slots_[step.slot];
    bool changed = false;
    if (slot.step != step.step) {
        slot.step = step.step;
        slot.revisions = step.revisions;
        slot.columns.clear();
        if (step.follows) list_all(slot.columns, step.columns);
        changed = true;
    }
    if (slot.revisions != revisions) {
        list_all(slot.columns, step.columns);
        changed = true;
    }
    // A column that is not due can wait until the whole step before it is decided: that is taken first. What
    // a dead sampler had claimed is free with a ring, too.
    changed = changed || slot.bell != bell;
    slot.revisions = revisions;
    slot.bell = bell;
    return changed ? slot.columns : none_;
}

}  // namespace croupier::daemon
