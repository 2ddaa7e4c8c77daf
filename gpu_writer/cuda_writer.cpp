#include "gpu_writer/cuda_writer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// bench/results/ has what it was chosen by (docs/decisions/0008-gpu-writer.md).
constexpr std::uint32_t kStoreBlocks = 16;

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

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
    parts_.clear();
    records_.reset();
    seeds_.reset();
    outcomes_.reset();
    empty_launches_.reset();
    counters_.reset();
    landed_.reset();
    order_.reset();
}

shm::Result<bool> CudaWriter::prepare() {
    CROUPIER_TRY(register_rings());
    CROUPIER_TRY(make_launch_ring());
    CROUPIER_TRY(keep_order());
    const proto::Geometry& geometry = host().geometry();
    CROUPIER_TRY(make_lean_path());
    if (lean_ == nullptr && path_ != Path::store) {
        const std::uint64_t maxima =
            geometry.has_summaries == 0
                ? 0
                : std::uint64_t{geometry.maxima_stride(host().rank())} * geometry.max_batch * sizeof(float);
        CROUPIER_TRY_VALUE(copy, CopyPath::make({slice_bytes(geometry.max_batch), maxima}));
        copy_.emplace(std::move(copy));
    }
    steps_.resize(geometry.slots);
    ringer_.emplace(mutable_host().bell(), geometry.slots);
    // The default stream's zeroing of what was allocated comes before the worker's stream begins.
    return cuda_done(cudaDeviceSynchronize(), "the GPU could not be prepared");
}

// Who asks for one of the other paths has no lean one, where rows will do as well.
shm::Result<bool> CudaWriter::make_lean_path() {
    const bool is_lean = host().geometry().sends_lean(true) && !(may_send_rows() && path_ != Path::automatic);
    mutable_host().set_format(is_lean ? proto::SliceFormat::lean : proto::SliceFormat::full_tiles);
    if (!is_lean) return true;
    const bool copies = rows_ == RowsAre::copied || (rows_ == RowsAre::automatic && may_send_rows());
    const LeanPath::Settings settings{copies, &counters_[0].next, ring_.empty_launches};
    CROUPIER_TRY(keep(lean_, LeanPath::make(
                                 host().segment(), host().rank(), host().order(),
                                 [this](const void* place) { return address(place); }, settings)));
    // Not when tokens are first awaited: to allocate what it needs waits for the GPU, which by then may wait
    // for what this thread has still to do.
    return keep(courier_, TokenCourier::make(host().segment(), host().rank(), lean_.get()));
}

shm::Result<bool> CudaWriter::register_rings() {
    const shm::Segment& segment = host().segment();
    const proto::SegmentLayout& layout = segment.layout();
    const std::uint32_t rank = host().rank();
    const auto add = [&](void* begin, std::size_t bytes, const std::string& what) -> shm::Result<bool> {
        Part part{static_cast<const std::byte*>(begin), whole_pages(bytes), nullptr, nullptr};
        void* device = nullptr;
        CROUPIER_TRY(keep(part.registered, register_memory(begin, part.bytes, what)));
        CROUPIER_TRY(keep(device, device_address(begin, what)));
        part.device = static_cast<std::byte*>(device);
        parts_.push_back(std::move(part));
        return true;
    };
    const std::uint32_t slots = segment.geometry().slots;
    CROUPIER_TRY(add(&segment.ready(0, 0), layout.ready_stride * slots, "the ready words"));
    if (rank == 0) {
        CROUPIER_TRY(add(&segment.randoms_ready(0), layout.random_stride * slots, "the random ring"));
    }
    CROUPIER_TRY(add(&segment.decision_head(0), layout.decision_stride * slots, "the decision ring"));
    if (segment.geometry().lean_blocks != 0) {
        CROUPIER_TRY(add(&segment.wish_board(0), layout.wish_slot_stride * slots, "the wishes"));
        if (layout.mask_stride != 0) {
            CROUPIER_TRY(add(segment.mask_row(0, 0), layout.mask_stride * slots, "the grammar masks"));
        }
        for (std::uint32_t slot = 0; slot < slots; ++slot) {
            CROUPIER_TRY(
                add(segment.lean(slot, rank), layout.lean_rank_stride,
                    "rank " + std::to_string(rank) + "'s lean part of slot " + std::to_string(slot)));
        }
    }
    const std::uint64_t end =
        rank + 1 < segment.geometry().tp ? layout.rank_offset[rank + 1] : layout.logits_stride;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        CROUPIER_TRY(add(segment.logits(slot, rank), end - layout.rank_offset[rank],
                         "rank " + std::to_string(rank) + "'s part of slot " + std::to_string(slot)));
    }
    return true;
}

std::uint64_t CudaWriter::address(const void* host) const {
    const auto* at = static_cast<const std::byte*>(host);
    for (const Part& part : parts_) {
        if (at >= part.begin && at < part.begin + part.bytes) {
            return reinterpret_cast<std::uint64_t>(part.device + (at - part.begin));
        }
    }
    return 0;
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
    record.ready = address(&segment.ready(slot, host().rank()).word);
    record.elements = address(segment.logits(slot, host().rank()));
    record.maxima = address(segment.maxima(slot, host().rank()).data());
    if (host().rank() == 0) {
        record.randoms = address(segment.randoms(slot));
        record.randoms_ready = address(&segment.randoms_ready(slot));
    }
    record.columns = step.columns;
    // The ticket last: a replay that runs now finds all of the record or none.
    LaunchRecord& to = records_[place];
    std::atomic_ref(to.ticket).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    to = record;
    std::atomic_ref(to.ticket).store(step.ticket, std::memory_order_release);

    proto::ReadyWord complete = step.word;
    complete.tiles = step.lean ? proto::ReadyWord::kLean : host().geometry().tiles(host().rank());
    ringer_->watch({&segment.ready(slot, host().rank()).word, complete});
    // Behind the launch record, by which the same replay makes its randoms.
    if (replayed) lean_->publish(step.ticket);
    return true;
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
            address(&segment.ready(slot, rank).word),
            step.word,
            reinterpret_cast<std::uint64_t>(ring_.outcomes + step.ticket % ring_.places),
            step.ticket,
            step.columns};
}

shm::Result<bool> CudaWriter::copies(bool captured) const {
    if (path_ == Path::copy && (captured || was_captured_)) {
        return shm::fail(Errc::bad_argument,
                         "the path `copy` cannot be captured into a CUDA graph, nor used after one was: its "
                         "destination changes from step to step; choose `store` or `auto`");
    }
    return path_ != Path::store && !captured && !was_captured_;
}

// From the first capture on: the steps that are begun by then, and by queue() each one after them.
shm::Result<bool> CudaWriter::expect_lean() {
    for (std::uint64_t ticket = enqueued_ + 1; ticket <= begun(); ++ticket) {
        const BegunStep& step = steps_[ticket % ring_.places];
        CROUPIER_TRY(lean_->expect(step, end_of(step)));
        lean_->publish(ticket);
    }
    return true;
}

// Of a capture, each replay finds out on the GPU whether a step was begun for it.
shm::Result<bool> CudaWriter::count_enqueued(bool captured) {
    if (captured) was_captured_ = true;
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
    if (lean_ != nullptr) return enqueue_lean(worker, captured, logits, row_stride);
    const BegunStep& step = steps_[(enqueued_ + 1) % ring_.places];
    CROUPIER_TRY_VALUE(by_copy, copies(captured));
    CROUPIER_TRY(count_enqueued(captured));
    const SliceRows rows = rows_of(logits, row_stride);
    if (by_copy) return copy_->send(rows, copy_target(step), &counters_[0].next, worker);
    return cuda_done(launch_store(rows, ring_, store_blocks_, worker), "cannot launch the store of a step");
}

shm::Result<bool> CudaWriter::enqueue_lean(cudaStream_t worker, bool captured, const void* logits,
                                           std::uint64_t row_stride) {
    const BegunStep& step = steps_[(enqueued_ + 1) % ring_.places];
    if (captured && !was_captured_) {
        CROUPIER_TRY(expect_lean());
    }
    CROUPIER_TRY(count_enqueued(captured));
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
    const std::uint64_t first = address(decisions[0].place()) + offsetof(proto::Decision, token);
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
    return courier_->await(step, timeout, static_cast<cudaStream_t>(stream), tokens);
}

}  // namespace croupier::gpu_writer
