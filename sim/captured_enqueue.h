// What a step's enqueue holds, captured into a CUDA graph once and replayed for each step.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <type_traits>

namespace croupier::sim {

class CapturedEnqueue {
  public:
    // `enqueue` is called once, while the stream is captured.
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
