#include "gpu_writer/cuda_memory.h"

#include <cstring>

namespace croupier::gpu_writer {

using shm::Errc;

shm::Result<bool> cuda_done(cudaError_t status, const std::string& what) {
    if (status == cudaSuccess) return true;
    const Errc code = status == cudaErrorMemoryAllocation ? Errc::no_memory : Errc::system_error;
    return shm::fail(code, what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

DeviceScope::DeviceScope(int device) {
    (void)cudaGetDevice(&before_);
    if (before_ != device) (void)cudaSetDevice(device);
}

DeviceScope::~DeviceScope() {
    int now = before_;
    (void)cudaGetDevice(&now);
    if (now != before_) (void)cudaSetDevice(before_);
}

shm::Result<void*> allocate_device(std::size_t bytes, const std::string& what) {
    void* memory = nullptr;
    const std::string text = "cannot allocate " + std::to_string(bytes) + " bytes of GPU memory for " + what;
    CROUPIER_TRY(cuda_done(cudaMalloc(&memory, bytes), text));
    if (auto done = cuda_done(cudaMemset(memory, 0, bytes), text); !done) {
        (void)cudaFree(memory);
        return done.error();
    }
    return memory;
}

shm::Result<void*> allocate_pinned(std::size_t bytes, const std::string& what) {
    void* memory = nullptr;
    const auto status = cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    CROUPIER_TRY(cuda_done(
        status, "cannot allocate " + std::to_string(bytes) + " bytes of pinned memory for " + what));
    std::memset(memory, 0, bytes);
    return memory;
}

shm::Result<RegisteredMemory> register_memory(void* begin, std::size_t bytes, const std::string& what) {
    CROUPIER_TRY(cuda_done(cudaHostRegister(begin, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
                           "cannot register " + std::to_string(bytes) + " bytes of shared memory, " + what));
    return RegisteredMemory(begin);
}

shm::Result<void*> device_address(const void* host, const std::string& what) {
    void* device = nullptr;
    CROUPIER_TRY(cuda_done(cudaHostGetDevicePointer(&device, const_cast<void*>(host), 0),
                           "the GPU has no address for " + what));
    return device;
}

shm::Result<Stream> make_stream() {
    cudaStream_t stream = nullptr;
    CROUPIER_TRY(
        cuda_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cannot create a stream"));
    return Stream(stream);
}

shm::Result<Stream> make_urgent_stream() {
    int least = 0;
    int most = 0;
    CROUPIER_TRY(
        cuda_done(cudaDeviceGetStreamPriorityRange(&least, &most), "the GPU's priorities are not known"));
    cudaStream_t stream = nullptr;
    CROUPIER_TRY(cuda_done(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most),
                           "cannot create a stream"));
    return Stream(stream);
}

shm::Result<Event> make_event() {
    cudaEvent_t event = nullptr;
    CROUPIER_TRY(
        cuda_done(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cannot create an event"));
    return Event(event);
}

}  // namespace croupier::gpu_writer
