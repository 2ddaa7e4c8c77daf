#include "daemon/worker/step_logits.h"

#include <atomic>

#include "daemon/worker/stage_clock.h"
#include "shm/clock.h"
#include "shm/logits_publisher.h"

namespace croupier::daemon {

using proto::Stage;

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

}  // namespace croupier::daemon
