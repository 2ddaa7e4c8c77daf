// A row's blocks in groups of kGroup consecutive ones, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sampler/blocked_row.h"
#include "sampler/row_mass.h"

namespace croupier::sampler {

struct BlockGroup {
    // If they lie at equal distances: the first one, and how far apart. Otherwise the stride is 0 and each
    // has its own pointer.
    const std::byte* first = nullptr;
    std::size_t stride = 0;
    const std::byte* at[kGroup];
    std::uint32_t blocks = 0;
    std::uint32_t first_block = 0;

    const std::byte* block(std::uint32_t i) const { return stride > 0 ? first + i * stride : at[i]; }
};

class GroupWalk {
  public:
    explicit GroupWalk(const BlockedRow& row) : run_(row.runs.data()), end_(run_ + row.runs.size()) {}

    // Filled where it lies: a copy would wait for its pointers to be stored. False: there are no more.
    bool next(BlockGroup& group) {
        group.first_block = next_;
        if (run_ != end_ && run_->is_even()) {
            const std::uint32_t from = next_ - run_->first_block;
            group.blocks = std::min(kGroup, run_->blocks - from);
            // Nearly all groups of nearly all rows: their pointers need not be stored.
            if (group.blocks == kGroup) {
                group.first = run_->block(from);
                group.stride = run_->stride;
                step(kGroup);
                return true;
            }
        }
        return gather(group);
    }

  private:
    bool gather(BlockGroup& group) {
        group.stride = 0;
        group.blocks = 0;
        while (group.blocks < kGroup && run_ != end_) {
            const std::uint32_t from = next_ - run_->first_block;
            const std::uint32_t some = std::min(kGroup - group.blocks, run_->blocks - from);
            for (std::uint32_t i = 0; i < some; ++i) group.at[group.blocks + i] = run_->block(from + i);
            group.blocks += some;
            step(some);
        }
        return group.blocks > 0;
    }

    void step(std::uint32_t blocks) {
        next_ += blocks;
        if (next_ - run_->first_block == run_->blocks) ++run_;
    }

    const BlockRun* run_;
    const BlockRun* end_;
    std::uint32_t next_ = 0;
};

}  // namespace croupier::sampler
