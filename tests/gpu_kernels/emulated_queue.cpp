// The queue's own code, over memory and streams that are this process's.
#include "tests/gpu_kernels/emulated_queue.h"

#include <atomic>
#include <stdexcept>

namespace croupier::gpu_writer {

shm::Result<StreamWait> StreamWait::find() {
    return StreamWait(nullptr);
}
shm::Result<bool> StreamWait::until(cudaStream_t, std::uint64_t, std::uint64_t) const {
    return wait_value_ == nullptr;
}

namespace {

QueueMemory last_memory;

cudaError_t record_launch(const LeanRows&, const LeanSlice&, const QueueMemory& queue, std::uint64_t pass,
                          const DeliveredTokens&, const ToldRows&, cudaStream_t stream) {
    last_memory = queue;
    testing::QueueLaunches& launches = testing::queue_launches();
    if (launches.to_fail > 0) {
        --launches.to_fail;
        return cudaErrorLaunchFailure;
    }
    launches.done.push_back({pass, stream});
    return cudaSuccess;
}

}  // namespace
}  // namespace croupier::gpu_writer

// The kernel itself waits for the CPU (emulated_answer.h).
#define launch_answering record_launch
#include "gpu_writer/request_queue.cpp"  // NOLINT(bugprone-suspicious-include)
#undef launch_answering
#include "gpu_writer/cuda_memory.cpp"  // NOLINT(bugprone-suspicious-include)

namespace croupier::testing {

QueueLaunches& queue_launches() {
    static QueueLaunches launches;
    return launches;
}

std::unique_ptr<gpu_writer::RequestQueue> make_emulated_queue() {
    queue_launches() = {};
    auto queue = gpu_writer::RequestQueue::make(proto::Dtype::bf16, 100);
    if (!queue) throw std::runtime_error(queue.error().message);
    return std::move(queue).value();
}

std::uint64_t queue_word() {
    return std::atomic_ref(*const_cast<std::uint64_t*>(gpu_writer::last_memory.word)).load();
}

void take_entry(std::uint32_t entry) {
    const gpu_writer::QueueMemory& memory = gpu_writer::last_memory;
    std::atomic_ref(memory.taken[entry % memory.places])
        .store(gpu_writer::QueueWord::of(queue_launches().done.back().pass, entry + 1));
}

}  // namespace croupier::testing
