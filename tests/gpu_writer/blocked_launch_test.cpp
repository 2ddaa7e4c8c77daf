// Why tokens have a thread of their own: some calls into CUDA wait for the GPU and keep other threads' calls
// waiting meanwhile. A thread that launches kernels would then not deliver the tokens that the GPU waits for.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/stream_wait.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using namespace std::chrono_literals;
using testing::Way;

namespace {

// A stream that waits for a word, as an engine's does for tokens, and another one.
struct Streams {
    gpu_writer::StreamWait wait = testing::need(gpu_writer::StreamWait::find());
    gpu_writer::PinnedMemory<std::uint64_t> word =
        testing::need(gpu_writer::pinned_array<std::uint64_t>(1, "a word"));
    std::uint64_t* address = testing::need(gpu_writer::device_pointer(word.get(), "a word"));
    gpu_writer::DeviceMemory<std::int32_t> from =
        testing::need(gpu_writer::device_array<std::int32_t>(256, "tokens"));
    gpu_writer::DeviceMemory<std::int32_t> to =
        testing::need(gpu_writer::device_array<std::int32_t>(256, "tokens"));
    gpu_writer::Stream waiting = testing::need(gpu_writer::make_stream());
    gpu_writer::Stream other = testing::need(gpu_writer::make_stream());

    cudaError_t launch() const {
        return gpu_writer::launch_tokens({reinterpret_cast<std::uint64_t>(from.get()), 4, 1}, to.get(),
                                         other.get());
    }
};

struct Call {
    std::string name;
    std::function<cudaError_t(Streams&)> make;
};

const std::vector<Call>& calls() {
    static std::vector<std::int32_t> pageable(1 << 20);
    static const std::vector<Call> all = {
        {"cudaMemcpyAsync to pageable memory",
         [](Streams& of) {
             return cudaMemcpyAsync(pageable.data(), of.from.get(), 1024, cudaMemcpyDeviceToHost,
                                    of.waiting.get());
         }},
        {"cudaMemcpyAsync from pageable memory",
         [](Streams& of) {
             return cudaMemcpyAsync(of.to.get(), pageable.data(), 1024, cudaMemcpyHostToDevice,
                                    of.waiting.get());
         }},
        {"cudaStreamSynchronize", [](Streams& of) { return cudaStreamSynchronize(of.waiting.get()); }},
        {"cudaDeviceSynchronize", [](Streams&) { return cudaDeviceSynchronize(); }},
        {"cudaMalloc and cudaFree",
         [](Streams&) {
             void* memory = nullptr;
             const cudaError_t made = cudaMalloc(&memory, 64 << 20);
             return made != cudaSuccess ? made : cudaFree(memory);
         }},
        {"cudaHostAlloc and cudaFreeHost",
         [](Streams&) {
             void* memory = nullptr;
             const cudaError_t made = cudaHostAlloc(&memory, 64 << 20, cudaHostAllocDefault);
             return made != cudaSuccess ? made : cudaFreeHost(memory);
         }},
        {"cudaMemcpy",
         [](Streams& of) {
             return cudaMemcpy(pageable.data(), of.from.get(), 1024, cudaMemcpyDeviceToHost);
         }},
        {"two thousand launches on the waiting stream",
         [](Streams& of) {
             cudaError_t last = cudaSuccess;
             for (int i = 0; i < 2000 && last == cudaSuccess; ++i) {
                 last = gpu_writer::launch_tokens({reinterpret_cast<std::uint64_t>(of.from.get()), 4, 1},
                                                  of.to.get(), of.waiting.get());
             }
             return last;
         }},
    };
    return all;
}

struct Seen {
    bool waits = false;    // the call, for the GPU
    bool blocked = false;  // a launch of another thread, meanwhile
};

Seen look_at(const Call& call, Streams& streams, std::uint64_t number) {
    REQUIRE(
        streams.wait.until(streams.waiting.get(), reinterpret_cast<std::uint64_t>(streams.address), number));
    auto made = std::async(std::launch::async, [&] { return call.make(streams); });
    Seen seen;
    // Nothing tells that a thread is in that call.
    seen.waits = made.wait_for(200ms) == std::future_status::timeout;
    auto launched = std::async(std::launch::async, [&] { return streams.launch(); });
    seen.blocked = launched.wait_for(500ms) == std::future_status::timeout;
    std::atomic_ref(streams.word[0]).store(number, std::memory_order_release);
    CHECK(made.get() == cudaSuccess);
    CHECK(launched.get() == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return seen;
}

}  // namespace

TEST_CASE("some calls that wait for the GPU block launches of other threads", "[lean]") {
    if (!testing::can_run(Way::store)) return;
    REQUIRE(gpu_writer::load_tokens_kernel() == cudaSuccess);
    Streams streams;
    REQUIRE(streams.launch() == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    std::string blocking;
    std::uint64_t number = 0;
    for (const Call& call : calls()) {
        const Seen seen = look_at(call, streams, ++number);
        if (seen.blocked) blocking += call.name + "; ";
        WARN(call.name << (seen.waits ? ": waits for the GPU" : ": goes on")
                       << (seen.blocked ? ", and blocks a launch" : ""));
    }
    // Were it empty on each driver, the watcher thread could deliver tokens as well.
    CHECK_FALSE(blocking.empty());
}
