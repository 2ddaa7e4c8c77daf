// A row's blocks in groups of kGroup consecutive ones, wherever they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sampler/blocked_row.h"
#include "sampler/row_mass.h"

namespace croupier::sampler {

struct BlockGroup {
    const std::byte* at[kGroup];
    std::uint32_t blocks = 0;  // 0: there are no more
    std::uint32_t first_block = 0;
};

class GroupWalk {
  public:
    explicit GroupWalk(const BlockedRow& row) : run_(row.runs.data()), end_(run_ + row.runs.size()) {}

    BlockGroup next() {
        BlockGroup group;
        group.first_block = next_;
        while (group.blocks < kGroup && run_ != end_) {
            const std::uint32_t from = next_ - run_->first_block;
            const std::uint32_t some = std::min(kGroup - group.blocks, run_->blocks - from);
            for (std::uint32_t i = 0; i < some; ++i) group.at[group.blocks + i] = run_->block(from + i);
            group.blocks += some;
            next_ += some;
            if (from + some == run_->blocks) ++run_;
        }
        return group;
    }

  private:
    const BlockRun* run_;
    const BlockRun* end_;
    std::uint32_t next_ = 0;
};

}  // namespace croupier::sampler
