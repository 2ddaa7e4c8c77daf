// One lean step on CUDA device 0, with all its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/request_queue.h"
#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

// Pinned memory in the GPU's sight, all of one byte at first.
class MappedBytes {
  public:
    MappedBytes(std::size_t bytes, unsigned char value);
    unsigned char* data() { return memory_.get(); }
    std::size_t size() const { return size_; }
    std::uint64_t address() const { return address_; }
    void fill(unsigned char value);

  private:
    std::size_t size_;
    gpu_writer::PinnedMemory<unsigned char> memory_;
    std::uint64_t address_ = 0;
};

class GpuLeanStep {
  public:
    explicit GpuLeanStep(const LeanCase& of);
    GpuLeanStep(const GpuLeanStep&) = delete;
    GpuLeanStep& operator=(const GpuLeanStep&) = delete;
    ~GpuLeanStep();

    // The logits, in place of the case's, with the maxima of their blocks.
    void compute(const gpu_writer::EnqueuedHead& head);
    // Whole columns too. None waits.
    void launch(std::uint64_t word);
    void ask(const std::vector<Asked>& asked, std::uint64_t word);
    bool ready(std::uint64_t word);
    bool stamped(std::uint32_t of_part, std::uint64_t word);
    bool answered(std::size_t asked, std::uint64_t word);
    // Waits for the stream, and throws what failed there; then the ticket must be there too.
    void synchronise();
    std::uint64_t finished();

    MappedBytes part;
    MappedBytes slice;

  private:
    std::uint64_t load(std::size_t word);

    std::vector<gpu_writer::WholeColumn> whole_;
    std::vector<gpu_writer::SpreadColumn> spreads_;
    gpu_writer::Stream stream_;
    gpu_writer::DeviceMemory<std::byte> logits_;
    gpu_writer::DeviceMemory<std::byte> scratch_;
    gpu_writer::DeviceMemory<std::byte> spread_scratch_;
    MappedBytes wants_;
    gpu_writer::DeviceMemory<std::uint32_t> masks_;
    gpu_writer::DeviceMemory<std::uint32_t> names_;
    MappedBytes words_;  // ready, finished, stamps, and one for each column that asks
    gpu_writer::LeanRows rows_;
    gpu_writer::LeanTarget target_;
    gpu_writer::LeanSlice slice_;
    std::unique_ptr<gpu_writer::RequestQueue> queue_;
    std::uint32_t columns_;
    std::uint64_t opening_ = 0;
};

}  // namespace croupier::testing
