// The steps that a worker has begun: in order, each once, and never one whose slot is not free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu_writer/launch_record.h"
#include "gpu_writer/rank_writer.h"

namespace croupier::gpu_writer {

struct BegunStep {
    std::uint64_t step = 0;
    std::uint64_t ticket = 0;
    std::uint32_t columns = 0;
    proto::ReadyWord word;
    bool windows = false;
};

class BegunSteps {
  public:
    explicit BegunSteps(RankWriter& rank) : rank_(&rank) {}

    std::uint64_t begun() const { return begun_; }
    std::uint64_t next_wanted() const { return next_wanted_; }
    // Nothing: the scheduler has not published the step yet, the samplers still have its slot.
    shm::Result<std::optional<BegunStep>> begin(std::uint64_t step);
    // The step that was begun last may be begun again.
    void take_back(const BegunStep& step);
    // Steps of later tickets than `finished` are forgotten.
    void abandon(std::uint64_t finished);

  private:
    RankWriter* rank_;
    std::uint64_t begun_ = 0;
    std::uint64_t next_wanted_ = 0;
};

// The column's sequence, whose parameters are there; null: it is not there.
const proto::SequenceEntry* live_sequence(const shm::Segment& segment, const proto::ScheduleColumn& column);

// A column whose sequence is not there has the seed 0: the samplers refuse to decide it.
void read_seeds(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                std::span<ColumnSeed> seeds);

}  // namespace croupier::gpu_writer
