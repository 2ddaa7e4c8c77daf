#include <cuda_runtime_api.h>

#include <semaphore>
#include <stdexcept>
#include <string>

#include "tests/gpu_writer/worker_memory.h"

namespace croupier::testing {
namespace {

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

class CudaGraph final : public CapturedGraph {
  public:
    CudaGraph(cudaGraph_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {
        need_cuda(cudaGraphInstantiate(&runnable_, graph_, 0), "instantiate a graph");
    }
    ~CudaGraph() override {
        (void)cudaGraphExecDestroy(runnable_);
        (void)cudaGraphDestroy(graph_);
    }
    void replay() override { need_cuda(cudaGraphLaunch(runnable_, stream_), "launch a graph"); }

  private:
    cudaGraph_t graph_;
    cudaStream_t stream_;
    cudaGraphExec_t runnable_ = nullptr;
};

class CudaMemory final : public WorkerMemory {
  public:
    explicit CudaMemory(std::size_t bytes) {
        need_cuda(cudaSetDevice(0), "choose device 0");
        need_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
        need_cuda(cudaMalloc(&memory_, bytes), "allocate GPU memory");
    }
    ~CudaMemory() override {
        (void)cudaStreamSynchronize(stream_);
        (void)cudaFree(memory_);
        (void)cudaStreamDestroy(stream_);
    }
    void* stream() override { return stream_; }
    const void* put(const Bytes& bytes) override {
        need_cuda(cudaMemcpyAsync(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_),
                  "copy rows to the GPU");
        return memory_;
    }
    std::int32_t* token_room() override { return static_cast<std::int32_t*>(memory_); }
    std::vector<std::int32_t> tokens(std::size_t count) override {
        std::vector<std::int32_t> found(count);
        need_cuda(cudaMemcpyAsync(found.data(), memory_, count * sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                                  stream_),
                  "copy tokens from the GPU");
        synchronise();
        return found;
    }
    void stall() override {
        need_cuda(cudaLaunchHostFunc(
                      stream_, [](void* go) { static_cast<std::binary_semaphore*>(go)->acquire(); }, &go_),
                  "stall a stream");
    }
    void resume() override { go_.release(); }
    void synchronise() override { need_cuda(cudaStreamSynchronize(stream_), "synchronise"); }
    std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
        need_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin a capture");
        work();
        cudaGraph_t graph = nullptr;
        need_cuda(cudaStreamEndCapture(stream_, &graph), "end a capture");
        return std::make_unique<CudaGraph>(graph, stream_);
    }

  private:
    cudaStream_t stream_ = nullptr;
    void* memory_ = nullptr;
    std::binary_semaphore go_{0};
};

}  // namespace

std::uint32_t cuda_devices() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<std::uint32_t>(count) : 0;
}

bool has_cuda_device() {
    return cuda_devices() > 0;
}

void synchronise_gpu() {
    need_cuda(cudaDeviceSynchronize(), "synchronise with the device");
}

std::size_t free_gpu_bytes() {
    std::size_t free = 0;
    std::size_t all = 0;
    need_cuda(cudaSetDevice(0), "choose device 0");
    need_cuda(cudaMemGetInfo(&free, &all), "ask for the free memory");
    return free;
}

std::unique_ptr<WorkerMemory> make_gpu_memory(std::size_t bytes) {
    return std::make_unique<CudaMemory>(bytes);
}

}  // namespace croupier::testing
