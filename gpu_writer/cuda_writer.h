// A rank's writer whose logits are a GPU's: what the two transports share.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/registered_rings.h"
#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/step_watcher.h"
#include "gpu_writer/step_writer.h"
#include "gpu_writer/token_delivery.h"

namespace croupier::gpu_writer {

class CudaWriter : public StepWriter {
  public:
    std::uint64_t finished() const override;
    std::uint64_t enqueued() const override { return has_replays_ ? begun() : enqueued_; }
    std::uint64_t empty_launches() const override;
    std::uint64_t late_steps() const override { return tokens_->late_steps(); }
    shm::Result<bool> enqueue(void* stream, const EnqueuedRows& rows, const EnqueuedHead* head) override;

  protected:
    CudaWriter(RankWriter rank, int device);

    // Memory that the launches of either transport use.
    shm::Result<bool> prepare_launches();
    // The last part of attaching: `lean` where steps are lean.
    shm::Result<bool> start_watching(LeanPath* lean, StepWatcher::Calls calls);
    // First in a destructor, and then everything that the GPU stores into: streams may wait for tokens.
    void stop_watching();

    // Before the launch that makes the step known to the GPU. A replay may run at any moment.
    virtual shm::Result<bool> prepare_step(const BegunStep& step, std::uint64_t opening) = 0;
    virtual void forget_step(std::uint64_t ticket) = 0;
    // An enqueue is captured for the first time.
    virtual shm::Result<bool> begin_replays() = 0;
    // Whether this writer can compute rows, in a session where one could (gpu_writer/enqueued_head.h).
    virtual shm::Result<bool> can_compute() const { return true; }
    // `head`: null, or the rows are computed from it.
    virtual shm::Result<bool> send(const BegunStep& step, const EnqueuedRows& rows, const EnqueuedHead* head,
                                   cudaStream_t worker) = 0;
    // The step that is next when the launch runs, in a capture or behind one; with inputs if it may be one
    // with windows.
    virtual shm::Result<bool> send_found(const EnqueuedRows& rows, const EnqueuedHead* head,
                                         cudaStream_t worker) = 0;

    int device() const { return device_; }
    // Replays use steps that this process cannot count: from the first capture on, the GPU alone knows which
    // is next.
    bool has_replays() const { return has_replays_; }
    // One that is begun and not finished.
    const BegunStep& step_of(std::uint64_t ticket) const { return steps_[ticket % places_]; }
    std::uint32_t places() const { return places_; }
    std::uint64_t address(const void* of_segment) const { return registered_.address(of_segment); }
    RegisteredRings& registered() { return registered_; }
    // Where the GPU says that a step is finished.
    LaunchOutcome* outcome_of(std::uint64_t ticket) const { return outcomes_address_ + ticket % places_; }
    LaunchCounters* counters() const { return counters_.get(); }
    LaunchOutcome* outcomes() const { return outcomes_address_; }
    std::uint64_t* empty_launches_address() const { return empty_address_; }

  private:
    shm::Result<bool> check_inputs(const EnqueuedRows& rows);
    shm::Result<bool> check_rows_of_head(const EnqueuedRows& rows, const EnqueuedHead& head,
                                         bool captured) const;
    shm::Result<bool> queue(const BegunStep& step) override;
    void forget_after(std::uint64_t finished) override;
    shm::Result<bool> send_tokens(void* stream, const proto::StoredArray<const proto::Decision>& decisions,
                                  std::int32_t* tokens) override;
    shm::Result<bool> await_tokens(void* stream, const BegunStep& step, std::chrono::milliseconds timeout,
                                   std::int32_t* tokens) override;

    int device_;
    RegisteredRings registered_;
    PinnedMemory<LaunchOutcome> outcomes_;
    PinnedMemory<std::uint64_t> empty_launches_;
    DeviceMemory<LaunchCounters> counters_;
    LaunchOutcome* outcomes_address_ = nullptr;
    std::uint64_t* empty_address_ = nullptr;
    std::uint32_t places_ = 0;
    std::vector<BegunStep> steps_;
    std::unique_ptr<TokenDelivery> tokens_;
    std::optional<StepWatcher> watcher_;
    mutable std::uint64_t finished_ = 0;
    std::uint64_t enqueued_ = 0;
    bool has_replays_ = false;
    bool some_lack_inputs_ = false;  // a step that a launch finds may be without them
};

}  // namespace croupier::gpu_writer
