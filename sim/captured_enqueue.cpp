#include "sim/captured_enqueue.h"

#include <stdexcept>
#include <string>

namespace croupier::sim {
namespace {

void need(cudaError_t status, const std::string& what) {
    if (status != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(status));
}

}  // namespace

CapturedEnqueue::CapturedEnqueue(void* stream, const std::function<void(void* stream)>& enqueue)
    : stream_(static_cast<cudaStream_t>(stream)) {
    // The strictest mode, which engines use: it forbids unsafe calls in all threads of the process.
    need(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cannot begin a CUDA graph");
    enqueue(stream);
    cudaGraph_t captured = nullptr;
    need(cudaStreamEndCapture(stream_, &captured), "cannot end a CUDA graph");
    cudaGraphExec_t runnable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&runnable, captured, 0);
    (void)cudaGraphDestroy(captured);
    need(status, "cannot instantiate a CUDA graph");
    graph_.reset(runnable);
}

void CapturedEnqueue::replay() const {
    need(cudaGraphLaunch(graph_.get(), stream_), "cannot launch a CUDA graph");
}

}  // namespace croupier::sim
