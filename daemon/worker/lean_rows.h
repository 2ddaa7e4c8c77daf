// The rows of lean steps: what each rank sent of a column, and what stands in the slices since it was asked
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/worker/checked_step.h"
#include "proto/lean_part.h"
#include "sampler/row_view.h"
#include "shm/segment.h"

namespace croupier::daemon {

class LeanRows {
  public:
    LeanRows(const proto::Geometry& geometry, std::uint32_t threads);

    // The column's slices, until the thread's next call. `slices`: the slot's, where blocks stand that were
    // asked for.
    std::span<const sampler::Slice> lay(const shm::Segment& segment, const CheckedStep& step,
                                        std::uint32_t column, std::size_t thread,
                                        std::span<const sampler::Slice> slices);
    // As the slot's last step left them, or as the writers leave them meanwhile, copied: a decision would not
    // end over what changes. Drawn where they were, by `drawn_by` now. Empty: a rank has the column whole.
    std::span<const sampler::Slice> copy(const shm::Segment& segment, const CheckedStep& step,
                                         std::uint32_t column, const proto::race::Draw& drawn_by,
                                         std::span<const sampler::Slice> slices);
    // Brings near what a decision of the column reads of what was sent, the likeliest blocks of it, by its
    // head, which is brought near before: nobody of this host has touched it since its writer's device wrote
    // it.
    void prefetch_head(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) const;
    void prefetch(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) const;

  private:
    struct Laid {
        std::vector<sampler::Slice> slices;     // [rank]
        std::vector<sampler::LeanColumn> lean;  // [rank]
    };

    // In the rank's part: another process's.
    const proto::LeanHead& head_at(const std::byte* part, std::uint32_t rank, std::uint32_t column) const {
        return reinterpret_cast<const proto::LeanHead*>(part + layouts_[rank].heads)[column];
    }
    sampler::LeanColumn column_of(const std::byte* part, std::uint32_t rank, std::uint32_t column,
                                  std::span<const std::uint64_t> placed) const;

    std::uint32_t lean_blocks_;
    std::vector<proto::LeanLayout> layouts_;  // [rank]
    std::vector<std::uint32_t> blocks_;       // [rank]
    std::vector<std::uint64_t> all_;          // a bit for each block
    std::vector<Laid> laid_;                  // [thread]
    Laid copied_;
    std::vector<std::byte> copied_bytes_;
};

}  // namespace croupier::daemon
