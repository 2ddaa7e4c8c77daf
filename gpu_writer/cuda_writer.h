// A rank's writer whose logits are a GPU's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu_writer/bell_ringer.h"
#include "gpu_writer/copy_path.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/lean_path.h"
#include "gpu_writer/registered_rings.h"
#include "gpu_writer/step_writer.h"
#include "gpu_writer/token_courier.h"

namespace croupier::gpu_writer {

class CudaWriter final : public StepWriter {
  public:
    static shm::Result<std::unique_ptr<StepWriter>> attach(const WriterOptions& options);
    ~CudaWriter() override;

    std::uint64_t finished() const override;
    std::uint64_t empty_launches() const override;
    std::uint64_t late_steps() const override { return courier_ == nullptr ? 0 : courier_->late_steps(); }
    std::uint32_t store_blocks() const override { return store_blocks_; }
    shm::Result<bool> enqueue(void* stream, const void* logits, std::uint64_t row_stride) override;
    shm::Result<bool> enqueue_randoms(void* stream) override;

  private:
    CudaWriter(HostWriter host, const WriterOptions& options);

    shm::Result<bool> prepare();
    shm::Result<bool> make_launch_ring();
    shm::Result<bool> keep_order();
    shm::Result<bool> make_lean_path();
    bool chooses_lean() const;
    shm::Result<bool> prepare_lean();
    CopyRoom room_of_tiles() const;
    shm::Result<bool> queue(const BegunStep& step) override;
    shm::Result<bool> settle() override;
    void forget_after(std::uint64_t finished) override;
    shm::Result<bool> send_tokens(void* stream, const proto::StoredArray<const proto::Decision>& decisions,
                                  std::int32_t* tokens) override;

    shm::Result<bool> await_tokens(void* stream, const BegunStep& step, std::chrono::milliseconds timeout,
                                   std::int32_t* tokens) override;

    std::uint64_t slice_bytes(std::uint32_t columns) const;
    SliceRows rows_of(const void* logits, std::uint64_t row_stride) const;
    CopyTarget copy_target(const BegunStep& step) const;
    bool may_send_rows() const { return host().geometry().may_have_rows(); }
    // Rows are copied though nobody asked for that.
    bool copies_unasked() const { return rows_ == RowsAre::automatic && may_send_rows(); }
    shm::Result<bool> begin_capturing();
    shm::Result<bool> may_be_captured(bool lean) const;
    shm::Result<bool> count_enqueued();
    void send_as_rows(BegunStep& step);
    shm::Result<bool> enqueue_lean(cudaStream_t worker, const void* logits, std::uint64_t row_stride);
    shm::Result<bool> enqueue_rows(cudaStream_t worker, const void* logits, std::uint64_t row_stride);
    // Of those begun and not enqueued.
    BegunStep& begun_step(std::uint64_t ticket) { return steps_[ticket % ring_.places]; }
    LeanEnd end_of(const BegunStep& step) const;

    int device_;
    Path path_;
    RowsAre rows_;
    std::uint32_t store_blocks_;
    RegisteredRings registered_;
    PinnedMemory<LaunchRecord> records_;
    PinnedMemory<ColumnSeed> seeds_;
    PinnedMemory<LaunchOutcome> outcomes_;
    PinnedMemory<std::uint64_t> empty_launches_;
    DeviceMemory<LaunchCounters> counters_;
    DeviceMemory<std::uint32_t> landed_;
    DeviceMemory<std::uint32_t> order_;
    LaunchRing ring_;
    std::vector<BegunStep> steps_;
    std::optional<CopyPath> copy_;
    std::unique_ptr<LeanPath> lean_;  // of a writer whose steps are lean
    std::optional<BellRinger> ringer_;
    std::unique_ptr<TokenCourier> courier_;  // since tokens were first awaited
    mutable std::uint64_t finished_ = 0;
    std::uint64_t enqueued_ = 0;
    // Replays use records that this process cannot count: from then on the GPU alone knows which is next.
    bool was_captured_ = false;
};

}  // namespace croupier::gpu_writer
