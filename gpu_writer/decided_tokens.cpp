#include "gpu_writer/decided_tokens.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "shm/step_window.h"

namespace croupier::gpu_writer {

shm::Result<bool> is_decided(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns) {
    const bool complete = shm::step_complete(segment, segment.slot_of(step), columns);
    // Read second, which the acquiring loads of the bits keep: while the slot is the step's, what was seen
    // complete is the step. A client that reuses the slot clears its bits before it publishes, and no sampler
    // sets them before that.
    // SYNC: acquire; pairs with the release in SchedulePublisher::publish.
    if (segment.header().published.load(std::memory_order_acquire) > step + segment.geometry().slots) {
        return shm::fail(shm::Errc::bad_argument, "the slot of step " + std::to_string(step) +
                                                      " holds a later step: the scheduler has its tokens");
    }
    return complete;
}

void read_tokens(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns,
                 std::int32_t* tokens) {
    const std::uint32_t slot = segment.slot_of(step);
    if (shm::step_refusal(segment, slot) != proto::DecisionError::none) {
        std::fill_n(tokens, columns, -1);
        return;
    }
    for (const proto::Decision decision : segment.decisions(slot).part(0, columns))
        *tokens++ = decision.token;
}

}  // namespace croupier::gpu_writer
