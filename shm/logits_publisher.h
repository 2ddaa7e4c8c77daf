// A rank writer's side of a session: which steps want its slice, and the store that publishes tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "shm/segment.h"

namespace croupier::shm {

class LogitsPublisher {
  public:
    // Locks the rank's role, waits until a predecessor that was killed has ended, begins a new epoch, and
    // vouches for the slices that its predecessor completed.
    static Result<LogitsPublisher> attach(Segment& segment, std::uint32_t rank);
    // Before the lock is dropped by a process that lives on and will store nothing more: a successor need not
    // wait for its end.
    void leave() const;

    std::uint32_t rank() const { return rank_; }
    std::uint32_t epoch() const { return epoch_; }
    // The first published step, of those from `from` on, whose slice is not complete; nothing when all are.
    std::optional<std::uint64_t> next_step(std::uint64_t from = 0) const;
    const proto::ScheduleRecord& record(std::uint64_t step) const;
    proto::StoredArray<const proto::ScheduleColumn> columns(std::uint64_t step) const;
    // [ceil(P_r / T)][columns][T] elements of the step.
    void* slice(std::uint64_t step) const;
    // Of the slice's tiles: [columns][maxima_stride]; empty when the session has no summaries.
    std::span<float> maxima(std::uint64_t step) const;

    // The step's ready word before its first tile: for a GPU, that publishes by storing it with the tiles
    // added. Refuses what publish() refuses.
    Result<proto::ReadyWord> begin(std::uint64_t step) const;
    // The first `tiles` tiles of the step have landed; with the last one all maxima, where the session has
    // summaries.
    // Refuses a fenced author and a slot that is not its own.
    Result<bool> publish(std::uint64_t step, std::uint32_t tiles);
    // The step is all there: of the transport lean its lean part, else all tiles.
    Result<bool> publish_all(std::uint64_t step);
    Result<bool> publish_randoms(std::uint64_t step);

    // Whether a part of the step's slice is published, and the rest is not.
    bool is_partial(std::uint64_t step) const;
    // Before a published part of a slice is written again: what samplers made of it is void. All slices that
    // are not complete, and their steps' randoms, then count as unpublished.
    Result<bool> begin_anew();

  private:
    LogitsPublisher(Segment& segment, std::uint32_t rank) : segment_(&segment), rank_(rank) {}
    enum class Rows { with_predecessor, here };
    void begin_epoch(Rows rows);
    bool vouches_for(std::uint64_t step, proto::ReadyWord ready, Rows rows) const;
    bool randoms_await_nobody(std::uint64_t step) const;
    Result<bool> not_fenced() const;
    Result<bool> may_publish(std::uint64_t step) const;
    Result<bool> store_tiles(std::uint64_t step, std::uint32_t tiles) const;

    Segment* segment_;
    std::uint32_t rank_;
    std::uint32_t epoch_ = 0;
};

// How many of the rank's tiles of the step are there, written by the rank's present owner.
std::uint32_t tiles_ready(const Segment& segment, std::uint64_t step, std::uint32_t rank);
bool slice_ready(const Segment& segment, std::uint64_t step, std::uint32_t rank);
bool randoms_ready(const Segment& segment, std::uint64_t step);
// The word of the rank's present owner for a lean step that is all there, and for each of its columns that
// is.
proto::ReadyWord lean_word(const Segment& segment, std::uint64_t step, std::uint32_t rank);

}  // namespace croupier::shm
