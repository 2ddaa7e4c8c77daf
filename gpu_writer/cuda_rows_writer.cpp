#include "gpu_writer/cuda_rows_writer.h"

#include <atomic>
#include <string>
#include <utility>

#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {
namespace {

using shm::Errc;

// On an H200, 16 blocks store 256 rows of 151,936 bf16 at 90 % of a plain copy's rate. More would take
// multiprocessors from the model.
constexpr std::uint32_t kStoreBlocks = 16;

}  // namespace

shm::Result<std::unique_ptr<StepWriter>> CudaRowsWriter::make(RankWriter rank, const WriterOptions& options) {
    std::unique_ptr<CudaRowsWriter> writer(new CudaRowsWriter(std::move(rank), options));
    CROUPIER_TRY(writer->prepare());
    return std::unique_ptr<StepWriter>(std::move(writer));
}

CudaRowsWriter::CudaRowsWriter(RankWriter rank, const WriterOptions& options)
    : CudaWriter(std::move(rank), options.device),
      path_(options.path),
      store_blocks_(options.store_blocks == 0 ? kStoreBlocks : options.store_blocks) {}

CudaRowsWriter::~CudaRowsWriter() {
    const DeviceScope scope(device());
    stop_watching();
    // What still runs stores into memory that the members' destructors give back.
    (void)cudaDeviceSynchronize();
}

shm::Result<bool> CudaRowsWriter::prepare() {
    CROUPIER_TRY(prepare_launches());
    CROUPIER_TRY(make_launch_ring());
    CROUPIER_TRY(keep_order());
    if (path_ != RowPath::store) {
        CROUPIER_TRY_VALUE(copy, CopyPath::make(room_of_tiles()));
        copy_.emplace(std::move(copy));
    }
    return start_watching(nullptr, {});
}

CopyRoom CudaRowsWriter::room_of_tiles() const {
    const proto::Geometry& geometry = rank_writer().geometry();
    const std::uint64_t maxima = geometry.has_summaries == 0
                                     ? 0
                                     : std::uint64_t{geometry.maxima_stride(rank_writer().rank())} *
                                           geometry.max_batch * sizeof(float);
    return {slice_bytes(geometry.max_batch), maxima};
}

shm::Result<bool> CudaRowsWriter::make_launch_ring() {
    const proto::Geometry& geometry = rank_writer().geometry();
    const std::string what = "the launch records";
    LaunchRecord* records = nullptr;
    ColumnSeed* seeds = nullptr;
    std::uint64_t* inputs = nullptr;
    CROUPIER_TRY(keep(records_, pinned_array<LaunchRecord>(places(), what)));
    CROUPIER_TRY(keep(seeds_, pinned_array<ColumnSeed>(std::size_t{places()} * geometry.max_batch, what)));
    CROUPIER_TRY(keep(inputs_, pinned_array<std::uint64_t>(places(), what)));
    CROUPIER_TRY(
        keep(landed_, device_array<std::uint32_t>(waves_at_most(slice_bytes(geometry.max_batch)), what)));
    CROUPIER_TRY(keep(records, device_pointer(records_.get(), what)));
    CROUPIER_TRY(keep(seeds, device_pointer(seeds_.get(), what)));
    CROUPIER_TRY(keep(inputs, device_pointer(inputs_.get(), what)));
    ring_ = {records,    seeds,         inputs,   outcomes(),        empty_launches_address(),
             counters(), landed_.get(), places(), geometry.max_batch};
    return true;
}

shm::Result<bool> CudaRowsWriter::keep_order() {
    const auto order = rank_writer().order();
    if (order.empty()) return true;
    CROUPIER_TRY(keep(order_, device_array<std::uint32_t>(order.size(), "the hotness order")));
    return cuda_done(cudaMemcpy(order_.get(), order.data(), order.size_bytes(), cudaMemcpyHostToDevice),
                     "cannot copy the hotness order to the GPU");
}

std::uint64_t CudaRowsWriter::slice_bytes(std::uint32_t columns) const {
    const proto::Geometry& geometry = rank_writer().geometry();
    return std::uint64_t{geometry.tiles(rank_writer().rank())} * columns * geometry.tile *
           proto::element_bytes(geometry.dtype);
}

shm::Result<bool> CudaRowsWriter::prepare_step(const BegunStep& step, std::uint64_t /*opening*/) {
    const shm::Segment& segment = rank_writer().segment();
    const std::uint32_t rank = rank_writer().rank();
    const std::uint32_t slot = segment.slot_of(step.step);
    const std::size_t place = step.ticket % places();
    read_seeds(segment, rank_writer().columns(step.step),
               {seeds_.get() + place * ring_.max_batch, std::size_t{step.columns}});
    LaunchRecord record;
    record.word = step.word.pack();
    record.ready = address(&segment.ready(slot, rank).word);
    record.elements = address(segment.logits(slot, rank));
    record.maxima = address(segment.maxima(slot, rank).data());
    if (rank == 0) {
        record.randoms = address(segment.randoms(slot));
        record.randoms_ready = address(&segment.randoms_ready(slot));
    }
    record.columns = step.columns;
    // The ticket last: a replay that runs now finds all of the record or none.
    LaunchRecord& to = records_[place];
    std::atomic_ref(to.ticket).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    to = record;
    inputs_[place] = step.windows ? address(segment.inputs(slot, rank)) : 0;
    std::atomic_ref(to.ticket).store(step.ticket, std::memory_order_release);
    return true;
}

void CudaRowsWriter::forget_step(std::uint64_t ticket) {
    std::atomic_ref(records_[ticket % places()].ticket).store(0, std::memory_order_release);
}

// Copies run behind the worker's stream: they may neither land on what is begun anew, nor end it.
shm::Result<bool> CudaRowsWriter::settle() {
    if (!copy_) return true;
    const DeviceScope scope(device());
    return copy_->settle();
}

SliceRows CudaRowsWriter::rows_of(const EnqueuedRows& rows) const {
    const proto::Geometry& geometry = rank_writer().geometry();
    const std::uint32_t rank = rank_writer().rank();
    const SliceShape shape = slice_shape(geometry, rank, 1, {});
    return {rows.logits, rows.row_stride, order_.get(),   shape.dtype,          shape.tile,
            shape.lead,  shape.entries,   shape.places(), geometry.tiles(rank), geometry.maxima_stride(rank),
            rows.row_of};
}

CopyTarget CudaRowsWriter::copy_target(const BegunStep& step) const {
    const shm::Segment& segment = rank_writer().segment();
    const std::uint32_t slot = segment.slot_of(step.step);
    const std::uint32_t rank = rank_writer().rank();
    return {segment.logits(slot, rank),
            segment.maxima(slot, rank).data(),
            address(&segment.ready(slot, rank).word),
            step.word,
            reinterpret_cast<std::uint64_t>(outcome_of(step.ticket)),
            step.ticket,
            step.columns};
}

shm::Result<bool> CudaRowsWriter::begin_replays() {
    if (path_ != RowPath::copy) return true;
    return shm::fail(Errc::bad_argument,
                     "the path `copy` cannot be captured into a CUDA graph: its destination changes from "
                     "step to step; choose `store` or `auto`");
}

shm::Result<bool> CudaRowsWriter::send(const BegunStep& step, const EnqueuedRows& rows,
                                       const EnqueuedHead* /*head*/, cudaStream_t worker) {
    if (step.windows) {
        CROUPIER_TRY(send_inputs(rows, worker));
    }
    if (!copy_) return store(rows, step.windows, worker);
    return copy_->send(rows_of(rows), copy_target(step), &counters()->next, worker);
}

shm::Result<bool> CudaRowsWriter::send_found(const EnqueuedRows& rows, const EnqueuedHead* /*head*/,
                                             cudaStream_t worker) {
    const bool has_inputs = rows.inputs != nullptr;
    if (has_inputs) {
        CROUPIER_TRY(send_inputs(rows, worker));
    }
    return store(rows, has_inputs, worker);
}

shm::Result<bool> CudaRowsWriter::send_inputs(const EnqueuedRows& rows, cudaStream_t worker) {
    return cuda_done(launch_inputs(rows, ring_, worker), "cannot launch the inputs of a step's rows");
}

shm::Result<bool> CudaRowsWriter::store(const EnqueuedRows& rows, bool behind_inputs, cudaStream_t worker) {
    return cuda_done(launch_store(rows_of(rows), ring_, behind_inputs, store_blocks_, worker),
                     "cannot launch the store of a step");
}

shm::Result<bool> CudaRowsWriter::enqueue_randoms(void* stream) {
    const DeviceScope scope(device());
    return cuda_done(launch_randoms(ring_, static_cast<cudaStream_t>(stream)),
                     "cannot launch the randoms of a step");
}

}  // namespace croupier::gpu_writer
