#include "gpu_writer/cuda_writer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "gpu_writer/cuda_lean_writer.h"
#include "gpu_writer/cuda_rows_writer.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

shm::Result<bool> has_device(int device) {
    int count = 0;
    CROUPIER_TRY(cuda_done(cudaGetDeviceCount(&count), "no CUDA device can be used"));
    if (device < count) return true;
    return shm::fail(Errc::bad_argument, "there is no CUDA device " + std::to_string(device) +
                                             ": there are " + std::to_string(count) + ", from 0 on");
}

shm::Result<bool> is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    CROUPIER_TRY(cuda_done(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing failed"));
    return capture != cudaStreamCaptureStatusNone;
}

}  // namespace

shm::Result<std::unique_ptr<StepWriter>> attach_cuda_writer(const WriterOptions& options) {
    CROUPIER_TRY(has_device(options.device));
    const DeviceScope scope(options.device);
    // Before the segment is opened: a worker without a GPU holds no rank.
    CROUPIER_TRY(cuda_done(cudaFree(nullptr), "CUDA cannot be initialised"));
    CROUPIER_TRY_VALUE(rank, RankWriter::attach(options.segment_path, options.rank));
    const bool lean = rank.geometry().is_lean();
    auto made = lean ? CudaLeanWriter::make(std::move(rank), options)
                     : CudaRowsWriter::make(std::move(rank), options);
    CROUPIER_TRY_VALUE(writer, std::move(made));
    // The default stream's zeroing of what was allocated comes before the worker's stream begins.
    CROUPIER_TRY(cuda_done(cudaDeviceSynchronize(), "the GPU could not be prepared"));
    return std::move(writer);
}

CudaWriter::CudaWriter(RankWriter rank, int device)
    : StepWriter(std::move(rank)),
      device_(device),
      places_(this->rank_writer().geometry().slots),
      steps_(places_) {}

shm::Result<bool> CudaWriter::prepare_launches() {
    const std::string what = "the launches of steps";
    CROUPIER_TRY(registered_.add_all(rank_writer().segment(), rank_writer().rank()));
    CROUPIER_TRY(keep(outcomes_, pinned_array<LaunchOutcome>(places_, what)));
    CROUPIER_TRY(keep(empty_launches_, pinned_array<std::uint64_t>(1, what)));
    CROUPIER_TRY(keep(counters_, device_array<LaunchCounters>(1, what)));
    CROUPIER_TRY(keep(outcomes_address_, device_pointer(outcomes_.get(), what)));
    return keep(empty_address_, device_pointer(empty_launches_.get(), what));
}

// Not when tokens are first awaited: to allocate what it needs waits for the GPU, which by then may wait for
// what this thread has still to do.
shm::Result<bool> CudaWriter::start_watching(LeanPath* lean, StepWatcher::Calls calls) {
    const shm::Segment& segment = rank_writer().segment();
    CROUPIER_TRY(
        keep(tokens_, TokenDelivery::make(segment, rank_writer().rank(), lean,
                                          [this](std::uint64_t step) { watcher_->repeat_answers(step); })));
    calls.rings = true;
    calls.landed = [this](std::uint64_t step) { tokens_->expect(step); };
    watcher_.emplace(segment, rank_writer().rank(), std::move(calls));
    return true;
}

void CudaWriter::stop_watching() {
    if (tokens_ != nullptr) tokens_->deliver_all();
    watcher_.reset();
}

shm::Result<bool> CudaWriter::queue(const BegunStep& step) {
    if (step.windows && some_lack_inputs_) {
        return shm::fail(
            Errc::bad_argument,
            "step " + std::to_string(step.step) +
                " has windows of several rows, and an enqueue that was captured into a CUDA "
                "graph, or came behind a capture, gave no `inputs`: give them to each, for which "
                "of them sends a step is not known");
    }
    const DeviceScope scope(device_);
    steps_[step.ticket % places_] = step;
    return prepare_step(step, watcher_->watch(step));
}

void CudaWriter::forget_after(std::uint64_t finished) {
    for (std::uint64_t ticket = finished + 1; ticket <= begun(); ++ticket) forget_step(ticket);
    enqueued_ = finished;
    watcher_->forget_after(finished);
}

std::uint64_t CudaWriter::finished() const {
    while (finished_ < begun()) {
        // acquire: what the GPU stored before it is there.
        std::atomic_ref outcome(outcomes_[(finished_ + 1) % places_].finished_ticket);
        if (outcome.load(std::memory_order_acquire) != finished_ + 1) break;
        ++finished_;
    }
    return finished_;
}

std::uint64_t CudaWriter::empty_launches() const {
    return std::atomic_ref(empty_launches_[0]).load(std::memory_order_acquire);
}

shm::Result<bool> CudaWriter::enqueue(void* stream, const EnqueuedRows& rows, const EnqueuedHead* head) {
    const DeviceScope scope(device_);
    auto* const worker = static_cast<cudaStream_t>(stream);
    CROUPIER_TRY_VALUE(captured, is_captured(worker));
    if (head != nullptr) {
        CROUPIER_TRY(check_rows_of_head(rows, *head, captured));
    }
    if (captured && !has_replays_) {
        CROUPIER_TRY(begin_replays());
        has_replays_ = true;
    }
    CROUPIER_TRY(check_inputs(rows));
    if (has_replays_) return send_found(rows, head, worker);
    if (enqueued_ == begun()) {
        return shm::fail(Errc::bad_argument, "no step is begun that was not enqueued: begin one first");
    }
    return send(step_of(++enqueued_), rows, head, worker);
}

// Of a step that a launch finds, columns beyond the head's rows have none.
shm::Result<bool> CudaWriter::check_rows_of_head(const EnqueuedRows& rows, const EnqueuedHead& head,
                                                 bool captured) const {
    CROUPIER_TRY(can_compute());
    const bool is_known = !captured && !has_replays_ && enqueued_ < begun();
    if (!is_known || rows.row_of != nullptr) return true;
    const BegunStep& step = step_of(enqueued_ + 1);
    if (step.columns <= head.rows) return true;
    return shm::fail(Errc::bad_argument, "rows of croupier_head is " + std::to_string(head.rows) +
                                             ", and step " + std::to_string(step.step) + " has " +
                                             std::to_string(step.columns) +
                                             " columns: give a row for each, or `row_of`");
}

// Without inputs the head of each window would be answered with bad_input, and its other rows rejected.
shm::Result<bool> CudaWriter::check_inputs(const EnqueuedRows& rows) {
    if (rows.inputs != nullptr) return true;
    const std::uint64_t first = has_replays_ ? finished() + 1 : enqueued_ + 1;
    const std::uint64_t last = has_replays_ ? begun() : std::min(begun(), first);
    for (std::uint64_t ticket = first; ticket <= last; ++ticket) {
        if (step_of(ticket).windows) return windows_need_inputs(step_of(ticket).step);
    }
    if (has_replays_) some_lack_inputs_ = true;
    return true;
}

shm::Result<bool> CudaWriter::send_tokens(void* stream,
                                          const proto::StoredArray<const proto::Decision>& decisions,
                                          std::int32_t* tokens) {
    const DeviceScope scope(device_);
    const std::uint64_t first = address(decisions[0].place()) + offsetof(proto::Decision, token);
    return cuda_done(launch_tokens({first, decisions.stride(), static_cast<std::uint32_t>(decisions.size())},
                                   tokens, static_cast<cudaStream_t>(stream)),
                     "cannot launch the fetch of a step's tokens");
}

shm::Result<bool> CudaWriter::await_tokens(void* stream, const BegunStep& step,
                                           std::chrono::milliseconds timeout, std::int32_t* tokens) {
    const DeviceScope scope(device_);
    return tokens_->await(step, timeout, static_cast<cudaStream_t>(stream), tokens);
}

}  // namespace croupier::gpu_writer
