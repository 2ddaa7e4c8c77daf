#include "gpu_writer/cuda_writer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "gpu_writer/tile_layout.h"
#include "shm/bell.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// bench/results/ has what it was chosen by (docs/decisions/0008-gpu-writer.md).
constexpr std::uint32_t kStoreBlocks = 16;

// Copies that nobody asked for may take this part of the GPU's memory that is free, and no more: who works
// with it has plans for the rest.
constexpr std::size_t kPartForCopies = 8;

shm::Result<bool> has_device(int device) {
    int count = 0;
    CROUPIER_TRY(cuda_done(cudaGetDeviceCount(&count), "no CUDA device can be used"));
    if (device < count) return true;
    return shm::fail(Errc::bad_argument, "there is no CUDA device " + std::to_string(device) +
                                             ": there are " + std::to_string(count) + ", from 0 on");
}

}  // namespace

shm::Result<std::unique_ptr<StepWriter>> attach_cuda_writer(const WriterOptions& options) {
    return CudaWriter::attach(options);
}

shm::Result<std::unique_ptr<StepWriter>> CudaWriter::attach(const WriterOptions& options) {
    CROUPIER_TRY(has_device(options.device));
    const DeviceScope scope(options.device);
    // Before the segment is opened: a worker without a GPU holds no rank.
    CROUPIER_TRY(cuda_done(cudaFree(nullptr), "CUDA cannot be initialised"));
    CROUPIER_TRY_VALUE(host, HostWriter::attach(options.segment_path, options.rank));
    std::unique_ptr<CudaWriter> writer(new CudaWriter(std::move(host), options));
    CROUPIER_TRY(writer->prepare());
    return std::unique_ptr<StepWriter>(std::move(writer));
}

CudaWriter::CudaWriter(HostWriter host, const WriterOptions& options)
    : StepWriter(std::move(host)),
      device_(options.device),
      path_(options.path),
      rows_(options.rows),
      store_blocks_(options.store_blocks == 0 ? kStoreBlocks : options.store_blocks) {}

CudaWriter::~CudaWriter() {
    const DeviceScope scope(device_);
    // First: streams may wait for tokens, and for wishes.
    if (courier_ != nullptr) courier_->deliver_all();
    if (lean_ != nullptr) lean_->end_answers();
    // What still runs stores into memory that the members' destructors give back.
    (void)cudaDeviceSynchronize();
    lean_.reset();
    courier_.reset();
    ringer_.reset();
    copy_.reset();
    registered_.clear();
    records_.reset();
    seeds_.reset();
    outcomes_.reset();
    empty_launches_.reset();
    counters_.reset();
    landed_.reset();
    order_.reset();
}

shm::Result<bool> CudaWriter::prepare() {
    CROUPIER_TRY(registered_.add_all(host().segment(), host().rank()));
    CROUPIER_TRY(make_launch_ring());
    CROUPIER_TRY(keep_order());
    const bool lean = chooses_lean();
    if (path_ != Path::store && (!lean || host().is_offer())) {
        CROUPIER_TRY_VALUE(copy, CopyPath::make(room_of_tiles()));
        copy_.emplace(std::move(copy));
    }
    if (lean) {
        CROUPIER_TRY(prepare_lean());
    }
    mutable_host().set_format(lean_ != nullptr ? proto::SliceFormat::lean : proto::SliceFormat::full_tiles);
    steps_.resize(host().geometry().slots);
    ringer_.emplace(mutable_host().header(), host().geometry().slots);
    // The default stream's zeroing of what was allocated comes before the worker's stream begins.
    return cuda_done(cudaDeviceSynchronize(), "the GPU could not be prepared");
}

// Who asked for nothing is refused nothing for its sake.
shm::Result<bool> CudaWriter::prepare_lean() {
    auto made = make_lean_path();
    const bool asked = !host().is_offer() || !copies_unasked();
    if (made || asked) return made;
    courier_.reset();
    lean_.reset();
    // The failed call's error is not the next launch's.
    (void)cudaGetLastError();
    return true;
}

CopyRoom CudaWriter::room_of_tiles() const {
    const proto::Geometry& geometry = host().geometry();
    const std::uint64_t maxima =
        geometry.has_summaries == 0
            ? 0
            : std::uint64_t{geometry.maxima_stride(host().rank())} * geometry.max_batch * sizeof(float);
    return {slice_bytes(geometry.max_batch), maxima};
}

// Who asks for one of the other paths has no lean one, where rows will do as well.
bool CudaWriter::chooses_lean() const {
    const proto::Geometry& geometry = host().geometry();
    if (!geometry.may_send_lean(true) || (may_send_rows() && path_ != Path::automatic)) return false;
    if (!host().is_offer() || !copies_unasked()) return true;
    std::size_t free = 0;
    std::size_t all = 0;
    const bool is_known = cudaMemGetInfo(&free, &all) == cudaSuccess;
    return is_known && LeanPath::copied_bytes(geometry, host().rank()) <= free / kPartForCopies;
}

shm::Result<bool> CudaWriter::make_lean_path() {
    CROUPIER_TRY(registered_.add_lean(host().segment(), host().rank()));
    const bool copies = rows_ == RowsAre::copied || copies_unasked();
    const LeanPath::Settings settings{copies, &counters_[0].next, ring_.empty_launches,
                                      [this] { shm::ring(mutable_host().header().bell); }};
    CROUPIER_TRY(
        keep(lean_, LeanPath::make(
                        host().segment(), host().rank(), host().order(),
                        [this](const void* place) { return registered_.address(place); }, settings)));
    // Not when tokens are first awaited: to allocate what it needs waits for the GPU, which by then may wait
    // for what this thread has still to do.
    return keep(courier_, TokenCourier::make(host().segment(), host().rank(), lean_.get()));
}

shm::Result<bool> CudaWriter::make_launch_ring() {
    const proto::Geometry& geometry = host().geometry();
    const std::uint32_t places = geometry.slots;
    const std::string what = "the launch records";
    LaunchRecord* records = nullptr;
    ColumnSeed* seeds = nullptr;
    LaunchOutcome* outcomes = nullptr;
    std::uint64_t* empty = nullptr;
    CROUPIER_TRY(keep(records_, pinned_array<LaunchRecord>(places, what)));
    CROUPIER_TRY(keep(seeds_, pinned_array<ColumnSeed>(std::size_t{places} * geometry.max_batch, what)));
    CROUPIER_TRY(keep(outcomes_, pinned_array<LaunchOutcome>(places, what)));
    CROUPIER_TRY(keep(empty_launches_, pinned_array<std::uint64_t>(1, what)));
    CROUPIER_TRY(keep(counters_, device_array<LaunchCounters>(1, what)));
    CROUPIER_TRY(
        keep(landed_, device_array<std::uint32_t>(waves_at_most(slice_bytes(geometry.max_batch)), what)));
    CROUPIER_TRY(keep(records, device_pointer(records_.get(), what)));
    CROUPIER_TRY(keep(seeds, device_pointer(seeds_.get(), what)));
    CROUPIER_TRY(keep(outcomes, device_pointer(outcomes_.get(), what)));
    CROUPIER_TRY(keep(empty, device_pointer(empty_launches_.get(), what)));
    ring_ = {records, seeds, outcomes, empty, counters_.get(), landed_.get(), places, geometry.max_batch};
    return true;
}

shm::Result<bool> CudaWriter::keep_order() {
    const auto order = host().order();
    if (order.empty()) return true;
    CROUPIER_TRY(keep(order_, device_array<std::uint32_t>(order.size(), "the hotness order")));
    return cuda_done(cudaMemcpy(order_.get(), order.data(), order.size_bytes(), cudaMemcpyHostToDevice),
                     "cannot copy the hotness order to the GPU");
}

std::uint64_t CudaWriter::slice_bytes(std::uint32_t columns) const {
    const proto::Geometry& geometry = host().geometry();
    return std::uint64_t{geometry.tiles(host().rank())} * columns * geometry.tile *
           proto::element_bytes(geometry.dtype);
}

shm::Result<bool> CudaWriter::queue(const BegunStep& step) {
    const shm::Segment& segment = host().segment();
    const std::uint32_t slot = segment.slot_of(step.step);
    const std::size_t place = step.ticket % ring_.places;
    steps_[place] = step;
    const bool replayed = step.lean && was_captured_;
    if (step.lean) {
        const DeviceScope scope(device_);
        lean_->prepare(step);
        if (replayed) {
            CROUPIER_TRY(lean_->expect(step, end_of(step)));
        }
    }
    read_seeds(segment, host().columns(step.step),
               {seeds_.get() + place * ring_.max_batch, std::size_t{step.columns}});
    LaunchRecord record;
    record.word = step.word.pack();
    record.ready = registered_.address(&segment.ready(slot, host().rank()).word);
    record.elements = registered_.address(segment.logits(slot, host().rank()));
    record.maxima = registered_.address(segment.maxima(slot, host().rank()).data());
    if (host().rank() == 0) {
        record.randoms = registered_.address(segment.randoms(slot));
        record.randoms_ready = registered_.address(&segment.randoms_ready(slot));
    }
    record.columns = step.columns;
    // The ticket last: a replay that runs now finds all of the record or none.
    LaunchRecord& to = records_[place];
    std::atomic_ref(to.ticket).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    to = record;
    std::atomic_ref(to.ticket).store(step.ticket, std::memory_order_release);

    proto::ReadyWord complete = step.word;
    // Fewer than of a lean step: which of the two it is may still change.
    complete.tiles = host().geometry().tiles(host().rank());
    ringer_->watch({step.step, &segment.ready(slot, host().rank()).word, complete});
    // Behind the launch record, by which the same replay makes its randoms.
    if (replayed) lean_->publish(step.ticket);
    return true;
}

// Copies run behind the worker's stream: they may neither land on what is begun anew, nor end it.
shm::Result<bool> CudaWriter::settle() {
    if (!copy_) return true;
    const DeviceScope scope(device_);
    return copy_->settle();
}

void CudaWriter::forget_after(std::uint64_t finished) {
    for (std::uint64_t ticket = finished + 1; ticket <= begun(); ++ticket) {
        std::atomic_ref(records_[ticket % ring_.places].ticket).store(0, std::memory_order_release);
        if (lean_ != nullptr) lean_->forget(ticket);
    }
    enqueued_ = finished;
    ringer_->forget_all();
}

std::uint64_t CudaWriter::finished() const {
    while (finished_ < begun()) {
        // acquire: what the GPU stored before it is there.
        std::atomic_ref outcome(outcomes_[(finished_ + 1) % ring_.places].finished_ticket);
        if (outcome.load(std::memory_order_acquire) != finished_ + 1) break;
        ++finished_;
    }
    return finished_;
}

std::uint64_t CudaWriter::empty_launches() const {
    return std::atomic_ref(empty_launches_[0]).load(std::memory_order_acquire);
}

SliceRows CudaWriter::rows_of(const void* logits, std::uint64_t row_stride) const {
    const proto::Geometry& geometry = host().geometry();
    const std::uint32_t rank = host().rank();
    const SliceShape shape = slice_shape(geometry, rank, 1, {});
    return {logits,     row_stride,    order_.get(),   shape.dtype,          shape.tile,
            shape.lead, shape.entries, shape.places(), geometry.tiles(rank), geometry.maxima_stride(rank)};
}

CopyTarget CudaWriter::copy_target(const BegunStep& step) const {
    const shm::Segment& segment = host().segment();
    const std::uint32_t slot = segment.slot_of(step.step);
    const std::uint32_t rank = host().rank();
    return {segment.logits(slot, rank),
            segment.maxima(slot, rank).data(),
            registered_.address(&segment.ready(slot, rank).word),
            step.word,
            reinterpret_cast<std::uint64_t>(ring_.outcomes + step.ticket % ring_.places),
            step.ticket,
            step.columns};
}

void CudaWriter::send_as_rows(BegunStep& step) {
    turn_to_rows(step);
    step.lean = false;
}

// Which kernels a graph has stays as it is: those of lean steps find these alone, and the others rows.
shm::Result<bool> CudaWriter::begin_capturing() {
    // Of the others nobody knows yet: their writers may attach later.
    const bool lean = host().could_send_lean();
    CROUPIER_TRY(may_be_captured(lean));
    // The steps that are begun by now, and by queue() each one after them.
    for (std::uint64_t ticket = enqueued_ + 1; ticket <= begun(); ++ticket) {
        BegunStep& step = begun_step(ticket);
        if (lean) {
            CROUPIER_TRY(lean_->expect(step, end_of(step)));
            lean_->publish(ticket);
        } else if (step.lean) {
            send_as_rows(step);
        }
    }
    if (lean) {
        mutable_host().send_lean_alone();
    } else {
        mutable_host().set_format(proto::SliceFormat::full_tiles);
        if (lean_ != nullptr) lean_->leave_slots();
    }
    was_captured_ = true;
    return true;
}

shm::Result<bool> CudaWriter::may_be_captured(bool lean) const {
    if (!lean && path_ == Path::copy) {
        return shm::fail(Errc::bad_argument,
                         "the path `copy` cannot be captured into a CUDA graph: its destination changes from "
                         "step to step; choose `store` or `auto`");
    }
    for (std::uint64_t ticket = enqueued_ + 1; lean && ticket <= begun(); ++ticket) {
        const BegunStep& step = steps_[ticket % ring_.places];
        if (step.lean) continue;
        return shm::fail(
            Errc::bad_argument,
            "step " + std::to_string(step.step) +
                " was begun and is sent as rows, and a CUDA graph would send lean steps: enqueue "
                "it before the capture");
    }
    return true;
}

// Of a capture, each replay finds out on the GPU whether a step was begun for it.
shm::Result<bool> CudaWriter::count_enqueued() {
    if (was_captured_) return true;
    if (enqueued_ == begun()) {
        return shm::fail(Errc::bad_argument, "no step is begun that was not enqueued: begin one first");
    }
    ++enqueued_;
    return true;
}

shm::Result<bool> CudaWriter::enqueue(void* stream, const void* logits, std::uint64_t row_stride) {
    const DeviceScope scope(device_);
    auto* const worker = static_cast<cudaStream_t>(stream);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    CROUPIER_TRY(cuda_done(cudaStreamIsCapturing(worker, &capture), "the stream cannot be asked"));
    const bool captured = capture != cudaStreamCaptureStatusNone;
    if (captured && !was_captured_) {
        CROUPIER_TRY(begin_capturing());
    }
    BegunStep& next = begun_step(enqueued_ + 1);
    // Since its begin an older build may have taken the session over.
    const bool is_begun = !was_captured_ && enqueued_ < begun();
    if (is_begun && next.lean && !host().sends_lean()) send_as_rows(next);
    const bool lean = was_captured_ ? host().sends_lean() : next.lean;
    return lean ? enqueue_lean(worker, logits, row_stride) : enqueue_rows(worker, logits, row_stride);
}

shm::Result<bool> CudaWriter::enqueue_rows(cudaStream_t worker, const void* logits,
                                           std::uint64_t row_stride) {
    const BegunStep& step = begun_step(enqueued_ + 1);
    CROUPIER_TRY(count_enqueued());
    if (lean_ != nullptr && !was_captured_) {
        CROUPIER_TRY(lean_->leave_slot(step.step, worker));
    }
    const SliceRows rows = rows_of(logits, row_stride);
    if (copy_ && !was_captured_) return copy_->send(rows, copy_target(step), &counters_[0].next, worker);
    return cuda_done(launch_store(rows, ring_, store_blocks_, worker), "cannot launch the store of a step");
}

shm::Result<bool> CudaWriter::enqueue_lean(cudaStream_t worker, const void* logits,
                                           std::uint64_t row_stride) {
    const BegunStep& step = begun_step(enqueued_ + 1);
    CROUPIER_TRY(count_enqueued());
    if (was_captured_) return lean_->send_expected(logits, row_stride, worker);
    return lean_->send(logits, row_stride, step, end_of(step), worker);
}

LeanEnd CudaWriter::end_of(const BegunStep& step) const {
    LeanEnd end;
    end.next = &counters_[0].next;
    end.finished = reinterpret_cast<std::uint64_t>(ring_.outcomes + step.ticket % ring_.places);
    end.ticket = step.ticket;
    return end;
}

shm::Result<bool> CudaWriter::enqueue_randoms(void* stream) {
    const DeviceScope scope(device_);
    return cuda_done(launch_randoms(ring_, static_cast<cudaStream_t>(stream)),
                     "cannot launch the randoms of a step");
}

shm::Result<bool> CudaWriter::send_tokens(void* stream,
                                          const proto::StoredArray<const proto::Decision>& decisions,
                                          std::int32_t* tokens) {
    const DeviceScope scope(device_);
    const std::uint64_t first = registered_.address(decisions[0].place()) + offsetof(proto::Decision, token);
    return cuda_done(launch_tokens({first, decisions.stride(), static_cast<std::uint32_t>(decisions.size())},
                                   tokens, static_cast<cudaStream_t>(stream)),
                     "cannot launch the fetch of a step's tokens");
}

shm::Result<bool> CudaWriter::await_tokens(void* stream, const BegunStep& step,
                                           std::chrono::milliseconds timeout, std::int32_t* tokens) {
    const DeviceScope scope(device_);
    if (courier_ == nullptr) {
        CROUPIER_TRY(keep(courier_, TokenCourier::make(host().segment(), host().rank(), nullptr)));
    }
    BegunStep awaited = step;
    // The answers to its wishes would come in this stream, and nobody has said yet where its rows stand. Who
    // waits so once does so in each step.
    const bool comes_before = !was_captured_ && step.ticket > enqueued_;
    if (comes_before && step.lean && host().is_offer()) {
        mutable_host().set_format(proto::SliceFormat::full_tiles);
        send_as_rows(begun_step(step.ticket));
        awaited.lean = false;
    }
    return courier_->await(awaited, timeout, static_cast<cudaStream_t>(stream), tokens);
}

}  // namespace croupier::gpu_writer
