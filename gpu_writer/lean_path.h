// The lean way: one kernel on the worker's stream sends what can matter of a step's rows, and a stream of the
// writer's own brings what samplers ask for beside it, out of the rows, until the step is decided.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/wish_server.h"

namespace croupier::gpu_writer {

class LeanPath {
  public:
    // Where the GPU finds a place of the segment.
    using Address = std::function<std::uint64_t(const void*)>;

    static shm::Result<std::unique_ptr<LeanPath>> make(const shm::Segment& segment, std::uint32_t rank,
                                                       std::span<const std::uint32_t> order, int device,
                                                       Address address);
    ~LeanPath();
    LeanPath(const LeanPath&) = delete;
    LeanPath& operator=(const LeanPath&) = delete;

    // When the step is begun: what its columns want.
    void prepare(const BegunStep& step);
    // `end`: but for the ready word, which is the step's.
    shm::Result<bool> send(const void* logits, std::uint64_t row_stride, const BegunStep& step, LeanEnd end,
                           cudaStream_t worker);

  private:
    struct Kept {
        const void* logits = nullptr;
        std::uint64_t row_stride = 0;
    };

    LeanPath(const shm::Segment& segment, std::uint32_t rank, int device, Address address);
    shm::Result<bool> prepare_memory(std::span<const std::uint32_t> order);
    shm::Result<bool> keep_places(std::span<const std::uint32_t> order);
    LeanRows rows_of(const Kept& kept) const;
    LeanSlice slice_of(const BegunStep& step) const;
    std::uint64_t* bitmap(std::uint32_t slot, std::uint32_t column) const;
    void answer(const BegunStep& step, std::span<const Wish> wishes);

    const shm::Segment& segment_;
    std::uint32_t rank_;
    int device_;
    Address address_;
    LeanShape shape_;
    std::size_t bitmap_words_;
    DeviceMemory<std::uint32_t> places_;
    DeviceMemory<std::byte> scratch_;
    DeviceMemory<std::byte> answer_scratch_;
    PinnedMemory<LeanWant> wants_;         // [slot][column]
    PinnedMemory<std::uint64_t> bitmaps_;  // [slot][column][word]
    LeanWant* wants_address_ = nullptr;
    std::uint64_t* bitmaps_address_ = nullptr;
    Stream answering_;
    Event answered_;
    std::vector<Kept> kept_;                         // [slot]
    std::vector<LeanScales> scales_;                 // of the step that is sent
    std::vector<LeanAnswer> answers_;                // these are the server's thread's
    std::vector<std::vector<std::uint16_t>> lists_;  // [answer]
    std::atomic<int> failure_{cudaSuccess};          // of an answer
    // Last: its thread uses all of the above.
    std::optional<WishServer> server_;
};

}  // namespace croupier::gpu_writer
