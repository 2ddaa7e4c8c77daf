#include "gpu_writer/token_delivery.h"

#include <algorithm>
#include <cstddef>

#include "gpu_writer/lean_path.h"
#include "gpu_writer/logits_pace.h"
#include "gpu_writer/slice_kernels.h"
#include "shm/logits_publisher.h"
#include "shm/wait_strategy.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// A GPU idles until the tokens are there, which is within a few milliseconds of the logits: the thread spins.
constexpr shm::WaitSettings kAfterLogits{shm::WaitMode::adaptive, std::chrono::milliseconds(5),
                                         std::chrono::microseconds(50)};

// The watcher's thread may itself wait for the GPU, in a call of CUDA, and so for these tokens.
constexpr std::chrono::milliseconds kWatcherAsleep{5};

shm::Result<bool> refuse_capture(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    CROUPIER_TRY(cuda_done(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing failed"));
    if (capture == cudaStreamCaptureStatusNone) return true;
    return shm::fail(
        Errc::bad_argument,
        "a wait for a step's tokens cannot be captured into a CUDA graph: end the capture first");
}

}  // namespace

shm::Result<std::unique_ptr<TokenDelivery>> TokenDelivery::make(const shm::Segment& segment,
                                                                std::uint32_t rank, LeanPath* lean,
                                                                std::function<void(std::uint64_t)> late) {
    CROUPIER_TRY_VALUE(wait, StreamWait::find());
    std::unique_ptr<TokenDelivery> delivery(new TokenDelivery(segment, rank, lean, wait, std::move(late)));
    CROUPIER_TRY(delivery->prepare());
    delivery->thread_ = std::thread([raw = delivery.get()] { raw->serve(); });
    return delivery;
}

shm::Result<bool> TokenDelivery::prepare() {
    const proto::Geometry& geometry = segment_.geometry();
    // As many again as may be begun: a place is used again when the GPU has long had its tokens.
    const std::uint32_t places = 2 * geometry.slots;
    const std::size_t tokens = std::size_t{places} * geometry.max_batch;
    CROUPIER_TRY(keep(delivered_, pinned_array<std::uint64_t>(1, "the word of delivered tokens")));
    CROUPIER_TRY(keep(delivered_address_, device_pointer(delivered_.get(), "the word of delivered tokens")));
    CROUPIER_TRY(keep(tokens_, pinned_array<TokenWord>(tokens, "tokens")));
    CROUPIER_TRY(keep(tokens_address_, device_pointer(tokens_.get(), "tokens")));
    CROUPIER_TRY(cuda_done(load_tokens_kernel(), "cannot load the kernel that fetches tokens"));
    places_ = TokenPlaces({tokens_.get(), tokens}, places);
    fetched_.resize(places);
    for (Event& event : fetched_) {
        CROUPIER_TRY(keep(event, make_event()));
    }
    return true;
}

TokenDelivery::~TokenDelivery() {
    deliver_all();
}

void TokenDelivery::deliver_all() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    more_.notify_one();
    if (thread_.joinable()) thread_.join();
}

shm::Result<bool> TokenDelivery::await(const BegunStep& step, std::chrono::milliseconds timeout,
                                       cudaStream_t stream, std::int32_t* tokens) {
    CROUPIER_TRY(refuse_capture(stream));
    if (lean_ != nullptr && !lean_->is_sent(step.step)) {
        return shm::fail(Errc::bad_argument, "step " + std::to_string(step.step) +
                                                 " is not enqueued yet, or is long over: a lean step's "
                                                 "tokens are awaited behind its enqueue");
    }
    const std::uint64_t ticket = ticket_ + 1;
    const cudaEvent_t fetched = fetched_[ticket % fetched_.size()].get();
    CROUPIER_TRY(cuda_done(cudaEventSynchronize(fetched), "the GPU has not fetched earlier tokens"));
    places_.begin(ticket);
    const DeliveredTokens delivered = to_deliver(ticket, step.columns, tokens);
    shm::Result<std::uint64_t> pass = std::uint64_t{0};
    if (lean_ != nullptr) pass = lean_->answer_in(stream, step.step, delivered);
    {
        const std::lock_guard lock(mutex_);
        awaited_.push_back(
            {ticket, step.step, step.columns, Clock::now() + timeout, pass ? pass.value() : 0});
    }
    more_.notify_one();
    // From here on this ticket is delivered, whatever becomes of the stream.
    ticket_ = ticket;
    if (!pass) return pass.error();
    if (pass.value() == 0) {
        CROUPIER_TRY(enqueue_fetch(delivered, ticket, stream));
    }
    return cuda_done(cudaEventRecord(fetched, stream), "cannot mark the fetch of a step's tokens");
}

DeliveredTokens TokenDelivery::to_deliver(std::uint64_t ticket, std::uint32_t columns,
                                          std::int32_t* tokens) const {
    return {tokens_address_ + places_.first_of(ticket), tokens, columns, TokenPlaces::tag_of(ticket)};
}

shm::Result<bool> TokenDelivery::enqueue_fetch(const DeliveredTokens& tokens, std::uint64_t ticket,
                                               cudaStream_t stream) const {
    CROUPIER_TRY(wait_.until(stream, reinterpret_cast<std::uint64_t>(delivered_address_), ticket));
    // Not a copy: what waits for a copy engine begins some microseconds later than a kernel.
    const auto from = reinterpret_cast<std::uint64_t>(tokens.from) + offsetof(TokenWord, token);
    return cuda_done(launch_tokens({from, sizeof(TokenWord), tokens.columns}, tokens.to, stream),
                     "cannot enqueue the fetch of a step's tokens");
}

bool TokenDelivery::hand_over(const Awaited& awaited) {
    shm::WaitStrategy patience(kAfterLogits);
    decided_.begin(awaited.step, awaited.columns);
    while (true) {
        const auto more = decided_.more();
        if (!more) return false;
        put(awaited, more.value());
        if (decided_.all_given()) return true;
        if (over_.load(std::memory_order_relaxed) || Clock::now() >= awaited.deadline) return false;
        if (!shm::slice_ready(segment_, awaited.step, rank_)) {
            await_logits(awaited.step);
            continue;
        }
        patience.idle(more.value().size(),
                      [](std::chrono::nanoseconds longest) { std::this_thread::sleep_for(longest); });
    }
}

void TokenDelivery::expect(std::uint64_t step) {
    {
        const std::lock_guard lock(mutex_);
        expected_ = std::max(expected_, step + 1);
    }
    more_.notify_one();
}

void TokenDelivery::await_logits(std::uint64_t step) {
    std::unique_lock lock(mutex_);
    // A step that is sent once more is expected already.
    if (expected_ > step) {
        lock.unlock();
        std::this_thread::sleep_for(kBetweenLooks);
        return;
    }
    more_.wait_for(lock, kWatcherAsleep, [&] { return over_.load() || expected_ > step; });
}

void TokenDelivery::put(const Awaited& awaited, std::span<const DecidedTokens::Token> tokens) {
    for (const auto& [column, token] : tokens) places_.put(awaited.ticket, column, token);
}

void TokenDelivery::deliver(const Awaited& awaited) {
    const bool late = !hand_over(awaited);
    if (late) {
        put(awaited, decided_.give_up());
        late_.fetch_add(1, std::memory_order_relaxed);
    }
    // SYNC: release; a stream that waits for the word then finds the tokens.
    std::atomic_ref(delivered_[0]).store(awaited.ticket, std::memory_order_release);
    if (awaited.pass != 0) lean_->end_pass(awaited.step, awaited.pass);
    if (awaited.pass != 0 && late) tell_late_(awaited.step);
}

void TokenDelivery::serve() {
    begin_punctual_thread("croupier-tokens");
    std::unique_lock lock(mutex_);
    while (true) {
        more_.wait(lock, [this] { return over_.load(std::memory_order_relaxed) || !awaited_.empty(); });
        if (awaited_.empty()) return;
        const Awaited oldest = awaited_.front();
        lock.unlock();
        deliver(oldest);
        lock.lock();
        awaited_.pop_front();
    }
}

}  // namespace croupier::gpu_writer
