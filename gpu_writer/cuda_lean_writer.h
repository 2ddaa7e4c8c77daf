// A GPU's writer in a session of the transport lean.
#pragma once

#include <memory>

#include "gpu_writer/cuda_writer.h"
#include "gpu_writer/lean_path.h"

namespace croupier::gpu_writer {

class CudaLeanWriter final : public CudaWriter {
  public:
    static shm::Result<std::unique_ptr<StepWriter>> make(RankWriter rank, const WriterOptions& options);
    ~CudaLeanWriter() override;

    shm::Result<bool> enqueue_randoms(void* stream) override;
    std::uint64_t row_bytes() const override { return lean_->row_bytes(); }
    std::uint32_t head_rows() const override { return lean_->can_compute() ? head::kMostWorthwhile : 0; }

  private:
    using CudaWriter::CudaWriter;

    shm::Result<bool> prepare(bool copies_rows);
    shm::Result<bool> prepare_step(const BegunStep& step, std::uint64_t opening) override;
    void forget_step(std::uint64_t ticket) override { lean_->forget(ticket); }
    shm::Result<bool> begin_replays() override;
    shm::Result<bool> expect(const BegunStep& step);
    shm::Result<bool> can_compute() const override { return lean_->can_compute(); }
    shm::Result<bool> send(const BegunStep& step, const EnqueuedRows& rows, const EnqueuedHead* head,
                           cudaStream_t worker) override;
    shm::Result<bool> send_found(const EnqueuedRows& rows, const EnqueuedHead* head,
                                 cudaStream_t worker) override;
    LeanEnd end_of(const BegunStep& step) const;

    std::unique_ptr<LeanPath> lean_;
};

}  // namespace croupier::gpu_writer
