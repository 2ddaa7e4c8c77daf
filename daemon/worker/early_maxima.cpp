#include "daemon/worker/early_maxima.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "sampler/row_scan.h"

namespace croupier::daemon {
namespace {

using proto::ReadyWord;
using sampler::kBlock;

// Between two looks at other steps: some ten microseconds of a share of twenty columns.
constexpr std::uint32_t kTilesALook = 64;
// Taken in column by column: a tile of all columns lies on pages of its own, and so many pages stay near.
constexpr std::uint32_t kTilesAtOnce = 16;

ReadyWord ready_word(const shm::Segment& segment, std::uint32_t slot, std::uint32_t rank) {
    // acquire: who sees the count sees the tiles.
    return ReadyWord::unpack(segment.ready(slot, rank).word.load(std::memory_order_acquire));
}

bool scan(const sampler::BlockRun& run, proto::Dtype dtype, float* maxima) {
    const sampler::BlockedRow row{dtype, {&run, 1}, run.blocks * kBlock, run.blocks, false};
    return sampler::scan_block_maxima(row, {maxima, run.blocks}) == sampler::RowFault::none;
}

}  // namespace

EarlyMaxima::EarlyMaxima(const proto::Geometry& geometry, std::span<const std::vector<std::uint32_t>> orders)
    : geometry_(geometry) {
    if (geometry.has_summaries != 0 || geometry.is_lean() || geometry.tile != kBlock) return;
    find_part_tiles(orders);
    slots_.resize(geometry.slots);
    for (Slot& slot : slots_) {
        slot.columns.reserve(geometry.max_batch);
        slot.trusted.resize(geometry.max_batch);
        slot.ranks.resize(geometry.tp);
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const std::size_t room = std::size_t{geometry.maxima_stride(rank)} * geometry.max_batch;
            slot.ranks[rank].maxima = std::make_unique_for_overwrite<float[]>(room);
        }
    }
}

void EarlyMaxima::find_part_tiles(std::span<const std::vector<std::uint32_t>> orders) {
    part_tiles_.resize(geometry_.tp);
    for (std::uint32_t rank = 0; rank < geometry_.tp; ++rank) {
        const proto::RankShard& shard = geometry_.shards[rank];
        const std::uint32_t ids_end = shard.first_id + geometry_.real_ids(rank);
        for (std::uint32_t tile = 0; tile < shard.blocks(); ++tile) {
            const std::uint32_t block = orders.empty() ? shard.first_block() + tile : orders[rank][tile];
            const std::uint32_t first = block * kBlock;
            const std::uint32_t begin = std::clamp(shard.first_id, first, first + kBlock) - first;
            const std::uint32_t end = std::clamp(ids_end, first, first + kBlock) - first;
            if (begin > 0 || end < kBlock) part_tiles_[rank].push_back({tile, begin, end});
        }
    }
}

void EarlyMaxima::begin(Slot& slot, const CheckedStep& step, std::span<const std::uint32_t> columns) {
    slot.step = step.step;
    slot.columns.assign(columns.begin(), columns.end());
    std::fill(slot.trusted.begin(), slot.trusted.end(), std::uint8_t{0});
    for (const std::uint32_t column : columns) slot.trusted[column] = 1;
    for (Rank& rank : slot.ranks) rank.tiles = 0;
}

void EarlyMaxima::take_in(const shm::Segment& segment, const CheckedStep& step, Slot& slot,
                          std::uint32_t rank, std::uint32_t column, std::uint32_t first_tile,
                          std::uint32_t end_tile) const {
    const std::size_t element = proto::element_bytes(geometry_.dtype);
    const std::size_t stride = std::size_t{step.columns} * kBlock * element;
    const auto* elements = static_cast<const std::byte*>(segment.logits(step.slot, rank)) +
                           std::size_t{column} * kBlock * element;
    float* maxima = slot.ranks[rank].maxima.get() + std::size_t{column} * geometry_.maxima_stride(rank);
    bool sound = true;
    const auto scan_whole = [&](std::uint32_t begin, std::uint32_t end) {
        const sampler::BlockRun run{elements + begin * stride, stride, nullptr, end - begin, 0};
        sound = scan(run, geometry_.dtype, maxima + begin) && sound;
    };
    const auto& parts = part_tiles_[rank];
    auto part = std::lower_bound(parts.begin(), parts.end(), first_tile,
                                 [](const PartTile& each, std::uint32_t tile) { return each.tile < tile; });
    std::uint32_t next = first_tile;
    for (; part != parts.end() && part->tile < end_tile; ++part) {
        scan_whole(next, part->tile);
        alignas(64) std::array<std::byte, kBlock * sizeof(float)> believed;
        const std::uint32_t nothing = sampler::negative_infinity_code(geometry_.dtype);
        for (std::uint32_t i = 0; i < kBlock; ++i) std::memcpy(&believed[i * element], &nothing, element);
        const std::size_t begin = part->begin * element;
        if (part->begin < part->end) {
            std::memcpy(&believed[begin], elements + part->tile * stride + begin,
                        (part->end - part->begin) * element);
        }
        sound = scan({believed.data(), 0, nullptr, 1, 0}, geometry_.dtype, maxima + part->tile) && sound;
        next = part->tile + 1;
    }
    scan_whole(next, end_tile);
    if (!sound) slot.trusted[column] = 0;
}

bool EarlyMaxima::follow_rank(const shm::Segment& segment, const CheckedStep& step, Slot& slot,
                              std::uint32_t rank) const {
    const ReadyWord word = ready_word(segment, step.slot, rank);
    Rank& followed = slot.ranks[rank];
    if (word.step_tag != ReadyWord::tag_of(step.step)) return false;
    // Of a lean step nothing stands in the slice.
    if (word.tiles == ReadyWord::kLean) return false;
    // Another writer has begun the slice anew.
    if (word.epoch != followed.epoch || word.tiles < followed.tiles) {
        followed.epoch = word.epoch;
        followed.tiles = 0;
    }
    const std::uint32_t landed = std::min(word.tiles, geometry_.tiles(rank));
    const std::uint32_t until = std::min(landed, followed.tiles + kTilesALook);
    if (until == followed.tiles) return false;
    for (std::uint32_t tile = followed.tiles; tile < until; tile += kTilesAtOnce) {
        const std::uint32_t end = std::min(tile + kTilesAtOnce, until);
        for (const std::uint32_t column : slot.columns) {
            take_in(segment, step, slot, rank, column, tile, end);
        }
    }
    followed.tiles = until;
    return true;
}

bool EarlyMaxima::follow(const shm::Segment& segment, const CheckedStep& step,
                         std::span<const std::uint32_t> columns) {
    Slot& slot = slots_[step.slot];
    if (slot.step != step.step) begin(slot, step, columns);
    bool found = false;
    for (std::uint32_t rank = 0; rank < geometry_.tp; ++rank) {
        found = follow_rank(segment, step, slot, rank) || found;
    }
    return found;
}

bool EarlyMaxima::finish(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                         std::span<sampler::Slice> slices) {
    Slot& slot = slots_[step.slot];
    if (slot.step != step.step || slot.trusted[column] == 0) return false;
    for (std::uint32_t rank = 0; rank < geometry_.tp; ++rank) {
        const Rank& followed = slot.ranks[rank];
        const std::uint32_t tiles = geometry_.tiles(rank);
        // Nothing is gained by two passes where the first has not begun.
        if (followed.tiles == 0 && tiles > 0) return false;
        // SYNC: acquire; pairs with the release fence in LogitsPublisher::begin_epoch: what was read of the
        // tiles was read before the word is.
        std::atomic_thread_fence(std::memory_order_acquire);
        if (ready_word(segment, step.slot, rank).epoch != followed.epoch) return false;
        if (followed.tiles < tiles) take_in(segment, step, slot, rank, column, followed.tiles, tiles);
    }
    if (slot.trusted[column] == 0) return false;
    for (std::uint32_t rank = 0; rank < geometry_.tp; ++rank) {
        slices[rank].summaries = {slot.ranks[rank].maxima.get(), geometry_.maxima_stride(rank)};
    }
    return true;
}

}  // namespace croupier::daemon
