// Rows of lean steps that the writer computes itself, from hidden states and the LM head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/head_product.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_replay.h"
#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {

class HeadRows {
  public:
    // Where rows stand, so many bytes apart, and what lean steps are measured with.
    struct Memory {
        std::size_t pitch = 0;
        void* scratch = nullptr;
        std::uint32_t max_batch = 0;
    };
    // On a GPU that cannot, too: can_compute() says so.
    static shm::Result<HeadRows> make(const SliceShape& slice, const Memory& memory);

    shm::Result<bool> can_compute() const;
    // Computes the logits of a step's columns into `to`, and the maxima of their blocks; stores in `rows`
    // where both stand.
    shm::Result<bool> compute(const EnqueuedHead& head, std::uint32_t columns, std::byte* to, LeanRows& rows,
                              cudaStream_t stream) const;

    // Of a step that launches find: how they find its rows. Where nothing says which row is a column's, the
    // rows are the last of the memory's: so a column that has none reads as such, whichever step is found.
    EnqueuedRows found(const EnqueuedRows& given, const EnqueuedHead& head) const;
    // Behind the launch that finds it, all rows.
    shm::Result<bool> compute_found(const EnqueuedHead& head, const EnqueuedRows& given,
                                    const FoundStep& step, cudaStream_t stream) const;

  private:
    HeadRows(const SliceShape& slice, const Memory& memory) : slice_(slice), memory_(memory) {}
    std::uint64_t stride() const { return memory_.pitch / proto::element_bytes(slice_.dtype); }
    std::uint32_t first_row(const EnqueuedHead& head) const { return memory_.max_batch - head.rows; }
    head::HeadProduct product_of(const EnqueuedHead& head, std::uint32_t columns) const;

    SliceShape slice_;
    Memory memory_;
    cudaError_t status_ = cudaSuccess;
    // The number of each row that there may be, and as many -1 behind.
    DeviceMemory<std::int32_t> numbers_;
};

}  // namespace croupier::gpu_writer
