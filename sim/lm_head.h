// One rank's part of the simulated model on a GPU: computes hidden states from the last tokens, which stay in
// GPU memory, and multiplies them by the LM head's weights.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cublas.h"
#include "sim/hidden_state.h"
#include "sim/world.h"

namespace croupier::sim {

// As wide as an 8-billion-parameter model's.
constexpr std::uint32_t kHiddenSize = 4096;

struct RequestTraits {
    std::array<std::uint32_t, kThemes> themes;
    std::uint32_t poisoned_at;
};

struct ColumnInput {
    std::uint32_t request;
    std::uint32_t position;
    std::int32_t previous;  // kInGpuMemory: the last token that was returned to the GPU
};
constexpr std::int32_t kInGpuMemory = -2;

// What an engine tells its writer of a step's columns (croupier_rows), a number a column.
enum class ColumnArray : std::uint32_t { row_of, inputs, parents, positions, count_ };
using ColumnArrays = std::array<std::vector<std::int32_t>, static_cast<std::size_t>(ColumnArray::count_)>;

struct FreeOnGpu {
    void operator()(void* memory) const { (void)cudaFree(memory); }
};
template <typename T>
using OnGpu = std::unique_ptr<T[], FreeOnGpu>;

class LmHead {
  public:
    // Logits are in the order of the rank's ids. Throws std::runtime_error.
    LmHead(const World& world, std::uint32_t rank, int device);
    LmHead(const LmHead&) = delete;
    LmHead& operator=(const LmHead&) = delete;
    ~LmHead();

    cudaStream_t stream() const { return stream_; }
    std::uint16_t* logits(std::uint32_t slot) const;
    std::uint64_t row_stride() const { return row_stride_; }

    // Enqueues the computation of a step's logits. `slot`: the step's slot among those in flight.
    void forward(std::uint32_t slot, const std::vector<ColumnInput>& columns);
    // Enqueues the copy of what is told of the step's columns, and where it is then.
    void tell(std::uint32_t slot, const ColumnArrays& columns);
    const std::int32_t* told(std::uint32_t slot, ColumnArray which) const;
    // Enqueues overwriting a step's logits.
    void spoil(std::uint32_t slot);
    // The destination of the tokens of the step in `slot`.
    std::int32_t* tokens(std::uint32_t slot) const;
    // Enqueued after the tokens arrive: makes them the last tokens of the step's requests.
    void keep_tokens(std::uint32_t slot);
    // Whether the tokens of keep_tokens() have arrived.
    bool are_kept(std::uint32_t slot) const;
    // Time from the logits of the slot's last step to its tokens, both in GPU memory. Waits for the tokens.
    std::uint64_t latency_ns(std::uint32_t slot) const;
    // A copy of the tokens of keep_tokens().
    std::vector<std::int32_t> kept_tokens(std::uint32_t slot) const;

  private:
    struct Step {
        std::uint32_t columns = 0;
        cudaEvent_t logits_there = nullptr;
        cudaEvent_t tokens_there = nullptr;
        cudaEvent_t kept = nullptr;
    };

    void load_weights(const World& world, std::uint32_t rank);
    void load_requests(const World& world);

    ModelShape shape_;
    proto::RankShard shard_;
    std::uint32_t batch_;
    std::uint64_t stage_ns_;
    std::uint64_t row_stride_;
    Cublas cublas_;
    cudaStream_t stream_ = nullptr;
    std::vector<Step> steps_;
    ColumnInput* pinned_inputs_ = nullptr;  // [slots][batch]
    OnGpu<ColumnInput> inputs_;             // [slots][batch]
    std::int32_t* pinned_told_ = nullptr;   // [slots][array][batch]
    OnGpu<std::int32_t> told_;              // likewise
    OnGpu<std::int32_t> tokens_;            // [slots][batch]
    OnGpu<std::int32_t> last_token_;        // by request
    OnGpu<RequestTraits> traits_;           // by request
    OnGpu<std::uint64_t> keys_;             // by column
    OnGpu<std::uint16_t> hidden_;           // [batch][kHiddenSize]
    OnGpu<std::uint16_t> weights_;          // [ids][kHiddenSize]
    OnGpu<std::uint16_t> logits_;           // [slot][batch][row_stride]
};

}  // namespace croupier::sim
