// Delivers a step's tokens to the GPU that sent its logits. A stream waits for what a thread of this process
// stores; the thread that works the stream goes on at once, and a deadline keeps a dead daemon from blocking
// the GPU. The thread never calls into CUDA: a call that waited for the GPU would wait for these very tokens
// (docs/decisions/0020-a-lean-transport.md).
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/begun_steps.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/decided_tokens.h"
#include "gpu_writer/stream_wait.h"
#include "gpu_writer/token_places.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

class LeanPath;

class TokenDelivery {
  public:
    // The segment outlives it, and the lean path where there is one: a lean step's tokens come by the kernel
    // that answers its block requests, in the same wait.
    // `late` is called, by the thread, of a lean step some of whose tokens did not come in time.
    static shm::Result<std::unique_ptr<TokenDelivery>> make(const shm::Segment& segment, std::uint32_t rank,
                                                            LeanPath* lean,
                                                            std::function<void(std::uint64_t step)> late);
    TokenDelivery(const TokenDelivery&) = delete;
    TokenDelivery& operator=(const TokenDelivery&) = delete;
    ~TokenDelivery();

    std::uint64_t late_steps() const { return late_.load(std::memory_order_relaxed); }

    // The step's logits are there, and its tokens will follow: by the watcher's thread.
    void expect(std::uint64_t step);

    // What is awaited still has no tokens; nothing is awaited after it.
    void deliver_all();

    // What follows in the stream runs once the step is decided, or the time is over: `tokens` then has an
    // int32 a column, -1 where there is no token.
    shm::Result<bool> await(const BegunStep& step, std::chrono::milliseconds timeout, cudaStream_t stream,
                            std::int32_t* tokens);

  private:
    using Clock = std::chrono::steady_clock;
    struct Awaited {
        std::uint64_t ticket = 0;
        std::uint64_t step = 0;
        std::uint32_t columns = 0;
        Clock::time_point deadline;
        std::uint64_t pass = 0;  // of the kernel that ends with it; 0: none does
    };

    TokenDelivery(const shm::Segment& segment, std::uint32_t rank, LeanPath* lean, StreamWait wait,
                  std::function<void(std::uint64_t)> late)
        : segment_(segment),
          rank_(rank),
          lean_(lean),
          wait_(wait),
          tell_late_(std::move(late)),
          decided_(segment) {}
    shm::Result<bool> prepare();
    DeliveredTokens to_deliver(std::uint64_t ticket, std::uint32_t columns, std::int32_t* tokens) const;
    shm::Result<bool> enqueue_fetch(const DeliveredTokens& tokens, std::uint64_t ticket,
                                    cudaStream_t stream) const;
    void serve();
    void deliver(const Awaited& awaited);
    // As they are decided. False: some did not come in time.
    bool hand_over(const Awaited& awaited);
    void await_logits(std::uint64_t step);
    void put(const Awaited& awaited, std::span<const DecidedTokens::Token> tokens);

    const shm::Segment& segment_;
    std::uint32_t rank_;
    LeanPath* lean_;
    StreamWait wait_;
    std::function<void(std::uint64_t)> tell_late_;
    PinnedMemory<std::uint64_t> delivered_;  // up to this ticket; a stream without a kernel waits for it
    std::uint64_t* delivered_address_ = nullptr;
    PinnedMemory<TokenWord> tokens_;  // [place][column]
    TokenWord* tokens_address_ = nullptr;
    TokenPlaces places_;
    std::vector<Event> fetched_;  // by place: the GPU has its tokens
    std::uint64_t ticket_ = 0;

    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<Awaited> awaited_;  // the oldest first
    std::uint64_t expected_ = 0;   // of steps before this one
    // The thread's own.
    DecidedTokens decided_;
    std::atomic<bool> over_ = false;
    std::atomic<std::uint64_t> late_ = 0;
    std::thread thread_;
};

}  // namespace croupier::gpu_writer
