// A GPU's writer in a session of the transport rows.
#pragma once

#include <memory>
#include <optional>

#include "gpu_writer/copy_path.h"
#include "gpu_writer/cuda_writer.h"

namespace croupier::gpu_writer {

class CudaRowsWriter final : public CudaWriter {
  public:
    static shm::Result<std::unique_ptr<StepWriter>> make(RankWriter rank, const WriterOptions& options);
    ~CudaRowsWriter() override;

    std::uint32_t store_blocks() const override { return store_blocks_; }
    shm::Result<bool> enqueue_randoms(void* stream) override;

  private:
    CudaRowsWriter(RankWriter rank, const WriterOptions& options);

    shm::Result<bool> prepare();
    shm::Result<bool> make_launch_ring();
    shm::Result<bool> keep_order();
    shm::Result<bool> prepare_step(const BegunStep& step, std::uint64_t opening) override;
    void forget_step(std::uint64_t ticket) override;
    shm::Result<bool> begin_replays() override;
    shm::Result<bool> send(const BegunStep& step, const EnqueuedRows& rows, const EnqueuedHead* head,
                           cudaStream_t worker) override;
    shm::Result<bool> send_found(const EnqueuedRows& rows, const EnqueuedHead* head,
                                 cudaStream_t worker) override;
    shm::Result<bool> settle() override;

    CopyRoom room_of_tiles() const;
    std::uint64_t slice_bytes(std::uint32_t columns) const;
    SliceRows rows_of(const EnqueuedRows& rows) const;
    shm::Result<bool> send_inputs(const EnqueuedRows& rows, cudaStream_t worker);
    shm::Result<bool> store(const EnqueuedRows& rows, bool behind_inputs, cudaStream_t worker);
    CopyTarget copy_target(const BegunStep& step) const;

    RowPath path_;
    std::uint32_t store_blocks_;
    PinnedMemory<LaunchRecord> records_;
    PinnedMemory<ColumnSeed> seeds_;
    PinnedMemory<std::uint64_t> inputs_;
    DeviceMemory<std::uint32_t> landed_;
    DeviceMemory<std::uint32_t> order_;
    LaunchRing ring_;
    std::optional<CopyPath> copy_;  // unless the path is `store`
};

}  // namespace croupier::gpu_writer
