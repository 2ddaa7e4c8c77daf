#include "daemon/worker/step_shares.h"

#include <algorithm>

namespace croupier::daemon {
namespace {

constexpr std::uint32_t kNoLane = ~std::uint32_t{0};

std::uint32_t even_share(std::uint64_t columns, std::uint64_t lanes, std::uint64_t lane) {
    return static_cast<std::uint32_t>((lane + 1) * columns / lanes - lane * columns / lanes);
}

std::uint32_t owner_of(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) {
    const std::uint32_t sequence = segment.schedule_columns(step.slot)[column].load().sequence_slot;
    if (sequence >= segment.geometry().max_sequences) return 0;
    return segment.sequence(sequence).owner.load(std::memory_order_relaxed);
}

}  // namespace

void divide_columns(std::span<const std::uint32_t> owners, std::uint32_t lanes,
                    std::span<std::uint32_t> lane_of) {
    thread_local std::vector<std::uint32_t> loads;
    loads.assign(lanes, 0);
    const auto columns = static_cast<std::uint32_t>(owners.size());
    const std::uint32_t share = (columns + lanes - 1) / lanes;
    const std::uint32_t most = share + share / 4 + 1;
    for (std::uint32_t column = 0; column < columns; ++column) {
        const std::uint32_t lane = owners[column] - 1;  // of 0: more than there are
        const bool keeps = lane < lanes && loads[lane] < most;
        if (keeps) ++loads[lane];
        lane_of[column] = keeps ? lane : kNoLane;
    }
    std::uint32_t lane = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (lane_of[column] != kNoLane) continue;
        // The even shares together are all columns: there is always room.
        while (loads[lane] >= even_share(columns, lanes, lane)) ++lane;
        ++loads[lane];
        lane_of[column] = lane;
    }
}

StepShares::StepShares(const proto::Geometry& geometry, std::uint32_t threads)
    : threads_(threads), slots_(geometry.slots) {
    for (Slot& slot : slots_) {
        slot.owners.reserve(geometry.max_batch);
        slot.lane_of.reserve(geometry.max_batch);
        slot.own.reserve(geometry.max_batch);
        slot.ends.reserve(threads);
    }
}

void StepShares::divide(const shm::Segment& segment, const CheckedStep& step, std::uint32_t first_lane,
                        std::uint32_t lanes) {
    Slot& slot = slots_[step.slot];
    // A mad client may have changed the record since the last look.
    if (slot.step == step.step && slot.owners.size() == step.columns) return;
    slot.step = step.step;
    slot.owners.resize(step.columns);
    slot.lane_of.resize(step.columns);
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const std::uint32_t owner = owner_of(segment, step, column);
        slot.owners[column] = owner <= lanes ? owner : 0;
    }
    divide_columns(slot.owners, lanes, slot.lane_of);
    slot.own.clear();
    slot.ends.clear();
    for (std::uint32_t thread = 0; thread < threads_; ++thread) {
        for (std::uint32_t column = 0; column < step.columns; ++column) {
            if (slot.lane_of[column] == first_lane + thread) slot.own.push_back(column);
        }
        slot.ends.push_back(static_cast<std::uint32_t>(slot.own.size()));
    }
}

std::span<const std::uint32_t> StepShares::own(const CheckedStep& step, std::size_t thread) const {
    const Slot& slot = slots_[step.slot];
    const std::uint32_t begin = thread == 0 ? 0 : slot.ends[thread - 1];
    return std::span(slot.own).subspan(begin, slot.ends[thread] - begin);
}

std::size_t StepShares::thread_of(const CheckedStep& step, std::size_t place) const {
    const auto& ends = slots_[step.slot].ends;
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
}

}  // namespace croupier::daemon
