#include "gpu_writer/begun_steps.h"

#include <string>

#include "shm/step_window.h"

namespace croupier::gpu_writer {

using shm::Errc;

shm::Result<std::optional<BegunStep>> BegunSteps::begin(std::uint64_t step) {
    const shm::Segment& segment = rank_->segment();
    if (begun_ != 0 && step < next_wanted_) {
        return shm::fail(Errc::bad_argument, "step " + std::to_string(step) +
                                                 " is begun already: begin step " +
                                                 std::to_string(next_wanted_) + " or a later one");
    }
    // A fenced writer is told so even when its step is not there: the scheduler that would publish it may be
    // gone with the session.
    const bool published = step < shm::steps_in_flight(segment).end;
    if (!published && rank_->session_open()) return std::optional<BegunStep>();
    if (const auto oldest = rank_->publisher().next_step(next_wanted_); oldest && *oldest < step) {
        return shm::fail(Errc::bad_argument, "step " + std::to_string(step) +
                                                 " is not the oldest that wants rank " +
                                                 std::to_string(rank_->rank()) + "'s logits: begin step " +
                                                 std::to_string(*oldest) + " first, or give it up");
    }
    CROUPIER_TRY_VALUE(word, rank_->publisher().begin(step));
    if (shm::slice_ready(segment, step, rank_->rank())) {
        return shm::fail(Errc::bad_argument, "step " + std::to_string(step) +
                                                 " has the whole slice of rank " +
                                                 std::to_string(rank_->rank()) + " already");
    }
    next_wanted_ = step + 1;
    const auto columns = static_cast<std::uint32_t>(rank_->columns(step).size());
    const bool windows = (rank_->publisher().record(step).flags & proto::kWindows) != 0;
    return std::optional<BegunStep>({step, ++begun_, columns, word, windows});
}

void BegunSteps::take_back(const BegunStep& step) {
    begun_ = step.ticket - 1;
    next_wanted_ = step.step;
}

void BegunSteps::abandon(std::uint64_t finished) {
    begun_ = finished;
    next_wanted_ = 0;
}

const proto::SequenceEntry* live_sequence(const shm::Segment& segment, const proto::ScheduleColumn& column) {
    if (column.sequence_slot >= segment.geometry().max_sequences) return nullptr;
    const proto::SequenceEntry& entry = segment.sequence(column.sequence_slot);
    // acquire: the parameters of a live entry are there.
    const bool live = entry.state.load(std::memory_order_acquire) == proto::SequenceState::live;
    return live && entry.uid == column.sequence_uid ? &entry : nullptr;
}

void read_seeds(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                std::span<ColumnSeed> seeds) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const proto::ScheduleColumn column = columns[i];
        seeds[i] = {0, column.position, 0};
        const proto::SequenceEntry* entry = live_sequence(segment, column);
        if (entry == nullptr) continue;
        const proto::SamplingParams params = segment.params(column.sequence_slot);
        seeds[i] = {params.seed, entry->prompt_length + column.position, params.child};
    }
}

}  // namespace croupier::gpu_writer
