// A host's lean steps: it keeps a copy of the rows, and answers for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu_writer/lean_wants.h"
#include "gpu_writer/named_ids.h"
#include "gpu_writer/sent_order.h"
#include "gpu_writer/step_watcher.h"

namespace croupier::gpu_writer {

class LeanHost {
  public:
    LeanHost(const shm::Segment& segment, std::uint32_t rank,
             std::chrono::nanoseconds answered_at_most = StepWatcher::kAnsweredAtMost);

    // Lays the step's lean part; the caller publishes it then.
    void lay(const BegunStep& step, std::span<const void* const> rows);

  private:
    void answer(const BegunStep& step, const BlockRequest& request);
    std::span<LeanWant> wants_of(const BegunStep& step);

    const shm::Segment& segment_;
    std::uint32_t rank_;
    std::size_t row_bytes_;
    std::vector<std::vector<std::byte>> kept_;  // [slot]
    std::vector<LeanWant> wants_;               // [slot][max_batch]
    std::vector<std::uint32_t> lists_;
    NamedIds names_;
    SentOrder order_;
    std::vector<std::uint64_t> bits_;  // of the rank's blocks
    // Last: its thread reads all of the above.
    StepWatcher watcher_;
};

}  // namespace croupier::gpu_writer
