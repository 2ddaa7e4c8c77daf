#include "daemon/worker/step_shares.h"

#include <algorithm>

namespace croupier::daemon {
namespace {

constexpr std::uint32_t kNoLane = ~std::uint32_t{0};

std::uint32_t even_share(std::uint64_t windows, std::uint64_t lanes, std::uint64_t lane) {
    return static_cast<std::uint32_t>((lane + 1) * windows / lanes - lane * windows / lanes);
}

// 0: it names no sequence.
std::uint32_t owner_of(const shm::Segment& segment, std::uint32_t sequence) {
    if (sequence >= segment.geometry().max_sequences) return 0;
    return segment.sequence(sequence).owner.load(std::memory_order_relaxed);
}

}  // namespace

void divide_windows(std::span<const std::uint32_t> owners, std::uint32_t lanes,
                    std::span<std::uint32_t> lane_of) {
    thread_local std::vector<std::uint32_t> loads;
    loads.assign(lanes, 0);
    const auto windows = static_cast<std::uint32_t>(owners.size());
    const std::uint32_t share = (windows + lanes - 1) / lanes;
    const std::uint32_t most = share + share / 4 + 1;
    for (std::uint32_t window = 0; window < windows; ++window) {
        const std::uint32_t lane = owners[window] - 1;  // of 0: more than there are
        const bool keeps = lane < lanes && loads[lane] < most;
        if (keeps) ++loads[lane];
        lane_of[window] = keeps ? lane : kNoLane;
    }
    std::uint32_t lane = 0;
    for (std::uint32_t window = 0; window < windows; ++window) {
        if (lane_of[window] != kNoLane) continue;
        // The even shares together are all windows: there is always room.
        while (loads[lane] >= even_share(windows, lanes, lane)) ++lane;
        ++loads[lane];
        lane_of[window] = lane;
    }
}

StepShares::StepShares(const proto::Geometry& geometry, std::uint32_t threads)
    : threads_(threads), slots_(geometry.slots) {
    for (Slot& slot : slots_) {
        slot.window_of.reserve(geometry.max_batch);
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
    if (slot.step == step.step && slot.window_of.size() == step.columns) return;
    slot.step = step.step;
    slot.window_of.clear();
    slot.owners.clear();
    proto::WindowNumbers windows;
    for (const proto::ScheduleColumn asked : segment.schedule_columns(step.slot).part(0, step.columns)) {
        slot.window_of.push_back(windows.next(asked.row));
        if (slot.window_of.back() == slot.owners.size()) {
            const std::uint32_t owner = owner_of(segment, asked.sequence_slot);
            slot.owners.push_back(owner <= lanes ? owner : 0);
        }
    }
    slot.lane_of.resize(slot.owners.size());
    divide_windows(slot.owners, lanes, slot.lane_of);
    slot.own.clear();
    slot.ends.clear();
    for (std::uint32_t thread = 0; thread < threads_; ++thread) {
        for (std::uint32_t column = 0; column < step.columns; ++column) {
            if (lane_of(step, column) == first_lane + thread) slot.own.push_back(column);
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
