// One rank's share of the simulated model on a GPU: hidden states from the last tokens, which stay in the
// GPU's memory, and a product with the LM head's weights.
#pragma once

#include <cuda_runtime_api.h>

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
    std::int32_t previous;  // kInGpuMemory: the token that came back last
};
constexpr std::int32_t kInGpuMemory = -2;

struct FreeOnGpu {
    void operator()(void* memory) const { (void)cudaFree(memory); }
};
template <typename T>
using OnGpu = std::unique_ptr<T[], FreeOnGpu>;

class LmHead {
  public:
    // Of the rank's ids in their own order. Throws std::runtime_error.
    LmHead(const World& world, std::uint32_t rank, int device);
    LmHead(const LmHead&) = delete;
    LmHead& operator=(const LmHead&) = delete;
    ~LmHead();

    cudaStream_t stream() const { return stream_; }
    std::uint16_t* logits(std::uint32_t slot) const;
    std::uint64_t row_stride() const { return row_stride_; }

    // Enqueues the logits of a step's columns. `slot`: of the steps in flight.
    void forward(std::uint32_t slot, const std::vector<ColumnInput>& columns);
    // Enqueues that a step's logits are written over.
    void spoil(std::uint32_t slot);
    // Where the tokens of the step in `slot` are to come.
    std::int32_t* tokens(std::uint32_t slot) const;
    // Behind the tokens' arrival: they are the last ones of the step's requests from now on.
    void keep_tokens(std::uint32_t slot);
    // Whether tokens that are to be kept have come.
    bool are_kept(std::uint32_t slot) const;
    // From the slot's last step's logits to its tokens, in the GPU's memory both; once they are kept. Waits
    // for them.
    std::uint64_t latency_ns(std::uint32_t slot) const;
    // A copy of the tokens that are kept.
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
    std::uint64_t row_stride_;
    Cublas cublas_;
    cudaStream_t stream_ = nullptr;
    std::vector<Step> steps_;
    ColumnInput* pinned_inputs_ = nullptr;  // [slots][batch]
    OnGpu<ColumnInput> inputs_;             // [slots][batch]
    OnGpu<std::int32_t> tokens_;            // [slots][batch]
    OnGpu<std::int32_t> last_token_;        // by request
    OnGpu<RequestTraits> traits_;           // by request
    OnGpu<std::uint64_t> keys_;             // by column
    OnGpu<std::uint16_t> hidden_;           // [batch][kHiddenSize]
    OnGpu<std::uint16_t> weights_;          // [ids][kHiddenSize]
    OnGpu<std::uint16_t> logits_;           // [slot][batch][row_stride]
};

}  // namespace croupier::sim
