// What the CUDA writer owns: memory and handles that give themselves back, and errors that say what failed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "shm/error.h"

namespace croupier::gpu_writer {

shm::Result<bool> cuda_done(cudaError_t status, const std::string& what);

// What was made goes where it belongs; for BOOST_OUTCOME_TRYV.
template <typename T>
shm::Result<bool> keep(T& where, shm::Result<T> made) {
    if (!made) return made.error();
    where = std::move(made).value();
    return true;
}

// The worker's thread has a device of its own choice; a call into the writer leaves it as it was.
class DeviceScope {
  public:
    explicit DeviceScope(int device);
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;
    ~DeviceScope();

  private:
    int before_ = 0;
};

// While a stream is captured, by this thread or another one, this thread may ask for events and work other
// streams: without it CUDA would end the capture.
class BesideCapture {
  public:
    BesideCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
    BesideCapture(const BesideCapture&) = delete;
    BesideCapture& operator=(const BesideCapture&) = delete;
    ~BesideCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct FreeDevice {
    void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreePinned {
    void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
struct Unregister {
    void operator()(void* memory) const { (void)cudaHostUnregister(memory); }
};
struct DestroyStream {
    void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
struct DestroyEvent {
    void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};

template <typename T>
using DeviceMemory = std::unique_ptr<T[], FreeDevice>;
template <typename T>
using PinnedMemory = std::unique_ptr<T[], FreePinned>;
using RegisteredMemory = std::unique_ptr<void, Unregister>;
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

// Both are zero.
shm::Result<void*> allocate_device(std::size_t bytes, const std::string& what);
shm::Result<void*> allocate_pinned(std::size_t bytes, const std::string& what);

template <typename T>
shm::Result<DeviceMemory<T>> device_array(std::size_t count, const std::string& what) {
    CROUPIER_TRY_VALUE(memory, allocate_device(count * sizeof(T), what));
    return DeviceMemory<T>(static_cast<T*>(memory));
}

template <typename T>
shm::Result<PinnedMemory<T>> pinned_array(std::size_t count, const std::string& what) {
    CROUPIER_TRY_VALUE(memory, allocate_pinned(count * sizeof(T), what));
    return PinnedMemory<T>(static_cast<T*>(memory));
}

shm::Result<RegisteredMemory> register_memory(void* begin, std::size_t bytes, const std::string& what);
// Where the GPU finds pinned or registered memory.
shm::Result<void*> device_address(const void* host, const std::string& what);
template <typename T>
shm::Result<T*> device_pointer(const T* host, const std::string& what) {
    CROUPIER_TRY_VALUE(address, device_address(host, what));
    return static_cast<T*>(address);
}

shm::Result<Stream> make_stream();
// Of the highest priority, which has the GPU's queues to itself: streams of one priority share some, and wait
// for each other there.
shm::Result<Stream> make_urgent_stream();
shm::Result<Event> make_event();

}  // namespace croupier::gpu_writer
