// The enqueue of a step, captured once into a CUDA graph and replayed for each step.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <type_traits>

namespace croupier::sim {

class CapturedEnqueue {
  public:
    // Calls `enqueue` once, while the stream is captured.
    CapturedEnqueue(void* stream, const std::function<void(void* stream)>& enqueue);
    void replay() const;

  private:
    struct Destroy {
        void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
    };
    cudaStream_t stream_;
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace croupier::sim
