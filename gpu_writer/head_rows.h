// Rows of lean steps that are computed here, from hidden states and the LM head.
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
    // What lean steps are measured with.
    struct Memory {
        void* scratch = nullptr;
        std::uint32_t max_batch = 0;
        std::uint32_t slots = 0;
    };
    // On a GPU that cannot, too: can_compute() says so.
    static shm::Result<HeadRows> make(const SliceShape& slice, const Memory& memory);

    shm::Result<bool> can_compute() const;
    // What the columns of a slot's step want, which stays as it is until the step is sent: as the host sees
    // it, and as the device does.
    struct Wants {
        std::span<const LeanWant> here;
        const LeanWant* there = nullptr;
        std::uint32_t slot = 0;
    };
    // When the step is begun: copies to the GPU what the product reads of them, once there was a product.
    // Each of its multiprocessors would have to read them over the link, which takes longer than the product
    // of many columns.
    void copy_wants(const Wants& wants, cudaStream_t stream);
    // Computes the logits of a step's columns where `rows` has them, and what the step measures of them.
    // Where columns are drawn alone and rows are lent, those of blocks that cannot win are left out, and the
    // rows have a source.
    shm::Result<bool> compute(const EnqueuedHead& head, const Wants& wants, bool are_lent, LeanRows& rows,
                              cudaStream_t stream);

    // Of a step that launches find, `given` is where its rows go: how they find them, so that a column that
    // has none reads as such.
    EnqueuedRows found(const EnqueuedRows& given, const EnqueuedHead& head) const;
    // Behind the launch that finds it, all rows.
    shm::Result<bool> compute_found(const EnqueuedHead& head, const EnqueuedRows& given,
                                    const FoundStep& step, cudaStream_t stream) const;

  private:
    HeadRows(const SliceShape& slice, const Memory& memory) : slice_(slice), memory_(memory) {}
    // Behind this the product may read the slot's wants; null: it needs none.
    shm::Result<const LeanWant*> await_wants(std::uint32_t slot, cudaStream_t stream) const;
    // `logits`: of a row's first entry, which may stand behind those of other ranks.
    head::HeadProduct product_of(const EnqueuedHead& head, std::uint32_t columns, const void* logits,
                                 std::uint64_t stride) const;

    SliceShape slice_;
    Memory memory_;
    cudaError_t status_ = cudaSuccess;
    bool is_used_ = false;
    DeviceMemory<std::int32_t> numbers_;  // of each row that there may be
    DeviceMemory<LeanWant> wants_;        // [slot][kMostTold]
    struct WantsOfSlot {
        Event there;
        cudaError_t status = cudaSuccess;
        bool some = false;
    };
    std::vector<WantsOfSlot> wants_of_;  // [slot]
};

}  // namespace croupier::gpu_writer
