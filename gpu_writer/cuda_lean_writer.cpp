#include "gpu_writer/cuda_lean_writer.h"

#include <utility>

#include "gpu_writer/lean_memory.h"

namespace croupier::gpu_writer {

using shm::Errc;

shm::Result<std::unique_ptr<StepWriter>> CudaLeanWriter::make(RankWriter rank, const WriterOptions& options) {
    if (options.path != RowPath::automatic) {
        return shm::fail(Errc::bad_argument,
                         "path is given, which is for whole rows, and the session's transport is lean: leave "
                         "it at auto, or open the session with the transport rows");
    }
    std::unique_ptr<CudaLeanWriter> writer(new CudaLeanWriter(std::move(rank), options.device));
    const bool copies_rows = options.rows == RowsAre::copied;
    if (auto prepared = writer->prepare(copies_rows); !prepared) {
        return with_memory_advice(prepared.error(), copies_rows);
    }
    return std::unique_ptr<StepWriter>(std::move(writer));
}

CudaLeanWriter::~CudaLeanWriter() {
    const DeviceScope scope(device());
    // First: streams may wait for tokens, and for answers to requests.
    if (lean_ != nullptr) lean_->end_answers();
    stop_watching();
    // What still runs stores into memory that the members' destructors give back.
    (void)cudaDeviceSynchronize();
    lean_.reset();
}

shm::Result<bool> CudaLeanWriter::prepare(bool copies_rows) {
    CROUPIER_TRY(prepare_launches());
    CROUPIER_TRY(registered().add_lean(rank_writer().segment(), rank_writer().rank()));
    CROUPIER_TRY(keep(lean_, LeanPath::make(rank_writer().segment(), rank_writer().rank(),
                                            [this](const void* place) { return address(place); },
                                            {copies_rows, &counters()->next, empty_launches_address()})));
    LeanPath* const lean = lean_.get();
    StepWatcher::Calls calls;
    calls.answer = [lean](const auto& step, const auto& request) { return lean->answer(step, request); };
    calls.end = [lean](const WatchedStep& step) { lean->end(step); };
    calls.rest = [lean](const WatchedStep& step) { return lean->rest(step); };
    calls.stays = [lean](const WatchedStep& step) { return lean->rows_stay(step); };
    return start_watching(lean, std::move(calls));
}

shm::Result<bool> CudaLeanWriter::prepare_step(const BegunStep& step, std::uint64_t opening) {
    lean_->prepare(step, opening);
    return has_replays() ? expect(step) : shm::Result<bool>(true);
}

// A replay may send it from now on.
shm::Result<bool> CudaLeanWriter::expect(const BegunStep& step) {
    CROUPIER_TRY(lean_->expect(step, end_of(step)));
    lean_->publish(step.ticket);
    return true;
}

shm::Result<bool> CudaLeanWriter::begin_replays() {
    for (std::uint64_t ticket = enqueued() + 1; ticket <= begun(); ++ticket) {
        CROUPIER_TRY(expect(step_of(ticket)));
    }
    return true;
}

shm::Result<bool> CudaLeanWriter::send(const BegunStep& step, const EnqueuedRows& rows,
                                       const EnqueuedHead* head, cudaStream_t worker) {
    return lean_->send(rows, head, step, end_of(step), worker);
}

shm::Result<bool> CudaLeanWriter::send_found(const EnqueuedRows& rows, const EnqueuedHead* head,
                                             cudaStream_t worker) {
    return lean_->send_expected(rows, head, worker);
}

LeanEnd CudaLeanWriter::end_of(const BegunStep& step) const {
    LeanEnd end;
    end.next = &counters()->next;
    end.finished = reinterpret_cast<std::uint64_t>(outcome_of(step.ticket));
    end.ticket = step.ticket;
    return end;
}

shm::Result<bool> CudaLeanWriter::enqueue_randoms(void* /*stream*/) {
    return randoms_need_rows();
}

}  // namespace croupier::gpu_writer
