// What a sampler makes of its columns' tiles while the last ones are in flight: their maxima. When the slices
// are complete, it decides as if the writers had given summaries; what is left then is the work of a row with
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/worker/checked_step.h"
#include "sampler/row_view.h"
#include "shm/segment.h"

namespace croupier::daemon {

class EarlyMaxima {
  public:
    // `orders`: the block at each place of each rank's slice, checked; empty: in the order of their ids.
    explicit EarlyMaxima(const proto::Geometry& geometry,
                         std::span<const std::vector<std::uint32_t>> orders = {});

    // Not where the writers give them, nor for tiles of another size than the sampler's blocks.
    bool wanted() const { return !slots_.empty(); }
    // Takes in some of what has landed of these columns; always the same ones of a step. True: there was
    // something.
    bool follow(const shm::Segment& segment, const CheckedStep& step, std::span<const std::uint32_t> columns);
    // Of a step whose slices are complete: takes in what the column has left and names the maxima in
    // `slices`. False, and nothing is named, where it was not followed or holds what no maximum should hide.
    // Columns may be finished at once, each by one thread.
    bool finish(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                std::span<sampler::Slice> slices);

  private:
    struct Rank {
        std::uint32_t epoch = 0;
        std::uint32_t tiles = 0;          // taken in, of every followed column
        std::unique_ptr<float[]> maxima;  // [max_batch][maxima_stride]
    };
    struct Slot {
        std::uint64_t step = ~0ULL;
        std::vector<std::uint32_t> columns;  // that are followed
        std::vector<std::uint8_t> trusted;   // by column: it is followed, and holds no NaN or +inf
        std::vector<Rank> ranks;
    };

    // A tile of which not all is believed: what is not the rank's, or beyond the vocabulary, is padding.
    struct PartTile {
        std::uint32_t tile;
        std::uint32_t begin;  // the entries that are believed
        std::uint32_t end;
    };

    void find_part_tiles(std::span<const std::vector<std::uint32_t>> orders);
    static void begin(Slot& slot, const CheckedStep& step, std::span<const std::uint32_t> columns);
    bool follow_rank(const shm::Segment& segment, const CheckedStep& step, Slot& slot,
                     std::uint32_t rank) const;
    void take_in(const shm::Segment& segment, const CheckedStep& step, Slot& slot, std::uint32_t rank,
                 std::uint32_t column, std::uint32_t first_tile, std::uint32_t end_tile) const;

    proto::Geometry geometry_;
    std::vector<std::vector<PartTile>> part_tiles_;  // [rank], ascending
    std::vector<Slot> slots_;
};

}  // namespace croupier::daemon
