// Lean steps of one shape on GPU 0, and a CPU that spins on their words: the transport alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/lean/gpu.h"
#include "bench/writer/gpu.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/request_queue.h"

namespace croupier::bench::lean {

struct Case {
    std::uint32_t vocab = 151936;
    std::uint32_t columns = 1;
    std::uint32_t by_maximum = 16;
    std::uint32_t by_race = 16;
    bool sums = false;
    bool drawn = false;         // and nothing else
    bool racers = false;        // in place of blocks by the race, which are opened
    std::uint32_t spreads = 0;  // of so many columns, the first ones
    bool masked = false;        // each column by a mask of its own, of half of the ids
};

// Pinned memory, and where the GPU finds it.
template <typename T>
struct Mapped {
    gpu_writer::PinnedMemory<T> host;
    T* device = nullptr;

    explicit Mapped(std::size_t count);
    T& operator[](std::size_t i) const { return host[i]; }
    std::uint64_t address(std::size_t i = 0) const { return reinterpret_cast<std::uint64_t>(device + i); }
};

// Rows, more than the second-level cache holds: a step has those that were not read for longest.
struct ColdRows {
    writer::GpuBuffer memory;
    std::size_t bytes;

    explicit ColdRows(std::size_t of);
};

class LeanSteps {
  public:
    LeanSteps(const Case& of, const ColdRows& rows);

    // Nanoseconds from just before the launch, as a CPU's thread sees them.
    std::uint64_t to_ready();
    // The CPU answers at once; until the tokens are in GPU memory.
    std::uint64_t to_tokens();
    // The same of a kernel that does nothing.
    std::uint64_t empty_to_flag();
    std::uint64_t empty_to_tokens();
    // Of each of the first columns so many blocks: from the block request to the word of the last one's
    // answer. `running`: not the step's first block request, which brings the answers' kernel to the GPU.
    std::uint64_t to_answers(std::uint32_t columns, std::uint32_t blocks, bool running);
    // The GPU's own time of a step's kernel. `cold`: after work that leaves nothing of it in the GPU's
    // caches, its code neither, as a model's step does.
    std::uint64_t of_kernel(bool cold);

    // Of the last step: what the GPU stored in host memory.
    std::size_t bytes_sent() const;
    std::uint32_t blocks_sent() const;

  private:
    void launch();
    void answer_tokens();
    void ask(std::uint32_t columns, std::span<const std::uint64_t> blocks);
    void wait_for_answers(std::uint32_t columns);
    std::uint64_t until_tokens(std::chrono::steady_clock::time_point begin);
    gpu_writer::LeanRows next_rows();
    gpu_writer::LeanSlice slice() const;
    std::uint32_t ticket() const { return static_cast<std::uint32_t>(step_); }

    Case case_;
    const ColdRows& cold_;
    gpu_writer::LeanShape shape_;
    writer::GpuStream stream_;
    std::unique_ptr<gpu_writer::RequestQueue> queue_;
    writer::GpuBuffer scratch_;
    writer::GpuBuffer spread_scratch_;
    std::vector<gpu_writer::SpreadColumn> spreads_;
    writer::GpuBuffer sweep_;
    writer::GpuBuffer tokens_;
    std::vector<gpu_writer::LeanWant> wants_;
    std::uint64_t mask_words_;
    writer::GpuBuffer masks_;
    Mapped<std::byte> part_;
    Mapped<std::byte> slice_;
    Mapped<std::uint64_t> words_;
    Mapped<gpu_writer::TokenWord> decided_;
    gpu_writer::Event begun_;
    gpu_writer::Event ended_;
    std::uint64_t step_ = 0;
    std::uint64_t asked_ = 0;
};

}  // namespace croupier::bench::lean
