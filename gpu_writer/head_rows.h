// Rows of lean steps that the writer computes itself, from hidden states and the LM head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/head_product.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_replay.h"
#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {

class HeadRows {
  public:
    // Where rows stand, so many bytes apart, each behind the ids of its first block that are another rank's;
    // and what lean steps are measured with.
    struct Memory {
        std::size_t pitch = 0;
        void* scratch = nullptr;
        std::uint32_t max_batch = 0;
        std::uint32_t slots = 0;
    };
    // On a GPU that cannot, too: can_compute() says so.
    static shm::Result<HeadRows> make(const SliceShape& slice, const Memory& memory);

    shm::Result<bool> can_compute() const;
    std::uint64_t hidden_bytes() const;  // of GPU memory
    // What the columns of a slot's step want, which stays as it is until the step is sent: as the host sees
    // it, and as the device does.
    struct Wants {
        std::span<const LeanWant> here;
        const LeanWant* there = nullptr;
        std::uint32_t slot = 0;
    };
    // When the step is begun: copies to the GPU what the product reads of them. Each of its multiprocessors
    // would have to read them over the link, which takes longer than the product of many columns.
    void copy_wants(const Wants& wants, cudaStream_t stream);
    // Computes the logits of a step's columns into `to`, and what the step measures of them; stores in `rows`
    // where they stand. Where columns are drawn alone, those of blocks that cannot win are left out, and
    // the rows have a source.
    shm::Result<bool> compute(const EnqueuedHead& head, const Wants& wants, std::byte* to, LeanRows& rows,
                              cudaStream_t stream) const;
    // Behind the step: a copy of the hidden states that the rows have for their source.
    shm::Result<LeanRows> keep_source(const LeanRows& rows, std::uint32_t columns, std::uint32_t slot,
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
    // More elements of a column are not kept, and then all logits are computed.
    static constexpr std::uint32_t kMostKept = 8192;
    static constexpr std::size_t kKeptBytes = std::size_t{kMostKept} * 2;
    // Behind this the product may read the slot's wants; null: it needs none.
    shm::Result<const LeanWant*> await_wants(std::uint32_t slot, cudaStream_t stream) const;
    head::HeadProduct product_of(const EnqueuedHead& head, std::uint32_t columns) const;

    SliceShape slice_;
    Memory memory_;
    cudaError_t status_ = cudaSuccess;
    // The number of each row that there may be, and as many -1 behind.
    DeviceMemory<std::int32_t> numbers_;
    DeviceMemory<std::byte> hidden_;  // [slot][column][kMostKept]
    DeviceMemory<LeanWant> wants_;    // [slot][kMostTold]
    struct WantsOfSlot {
        Event there;
        cudaError_t status = cudaSuccess;
        bool some = false;
    };
    std::vector<WantsOfSlot> wants_of_;  // [slot]
};

}  // namespace croupier::gpu_writer
