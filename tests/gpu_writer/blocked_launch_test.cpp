// Why tokens have a thread of their own: a call into CUDA can block while another thread waits for the GPU.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/stream_wait.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using namespace std::chrono_literals;
using testing::Way;

TEST_CASE("a launch on one stream blocks while another thread copies behind a stream that waits for a word",
          "[lean]") {
    if (!testing::can_run(Way::store)) return;
    const auto wait = testing::need(gpu_writer::StreamWait::find());
    const auto word = testing::need(gpu_writer::pinned_array<std::uint64_t>(1, "a word"));
    auto* const address = testing::need(gpu_writer::device_pointer(word.get(), "a word"));
    const auto from = testing::need(gpu_writer::device_array<std::int32_t>(256, "tokens"));
    const auto to = testing::need(gpu_writer::device_array<std::int32_t>(256, "tokens"));
    const auto waiting = testing::need(gpu_writer::make_stream());
    const auto other = testing::need(gpu_writer::make_stream());
    REQUIRE(gpu_writer::load_tokens_kernel() == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const auto launch = [&] {
        return gpu_writer::launch_tokens({reinterpret_cast<std::uint64_t>(from.get()), 4, 1}, to.get(),
                                         other.get());
    };
    REQUIRE(launch() == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(other.get()) == cudaSuccess);

    REQUIRE(wait.until(waiting.get(), reinterpret_cast<std::uint64_t>(address), 1));
    std::vector<std::int32_t> pageable(256);
    auto copied = std::async(std::launch::async, [&] {
        return cudaMemcpyAsync(pageable.data(), from.get(), pageable.size() * 4, cudaMemcpyDeviceToHost,
                               waiting.get());
    });
    // Nothing tells that a thread is in that call.
    CHECK(copied.wait_for(100ms) == std::future_status::timeout);
    auto launched = std::async(std::launch::async, launch);
    const bool blocked = launched.wait_for(500ms) == std::future_status::timeout;
    std::atomic_ref(word[0]).store(1, std::memory_order_release);
    CHECK(copied.get() == cudaSuccess);
    CHECK(launched.get() == cudaSuccess);
    // Were it not so any more, the watcher thread could deliver tokens as well.
    CHECK(blocked);
}
