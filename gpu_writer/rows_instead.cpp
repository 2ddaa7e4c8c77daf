#include "gpu_writer/rows_instead.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "gpu_writer/tile_maxima.h"
#include "shm/logits_publisher.h"
#include "shm/wishes.h"

namespace croupier::gpu_writer {
namespace {

// What a kernel had when its turn ended is lost, and posted again.
constexpr std::chrono::milliseconds kUntilPostedAgain{100};

}  // namespace

shm::Result<std::unique_ptr<RowsInstead>> RowsInstead::make(const shm::Segment& segment, std::uint32_t rank,
                                                            std::span<const std::uint32_t> order, Post post,
                                                            std::function<void()> ring) {
    std::unique_ptr<RowsInstead> made(
        new RowsInstead(segment, rank, order, std::move(post), std::move(ring)));
    const std::size_t columns = std::size_t{segment.geometry().slots} * segment.geometry().max_batch;
    const char* const what = "the words of rows that are sent instead";
    CROUPIER_TRY(keep(made->words_, pinned_array<std::uint64_t>(columns, what)));
    CROUPIER_TRY(keep(made->words_address_, device_pointer(made->words_.get(), what)));
    return made;
}

RowsInstead::RowsInstead(const shm::Segment& segment, std::uint32_t rank,
                         std::span<const std::uint32_t> order, Post post, std::function<void()> ring)
    : segment_(segment),
      rank_(rank),
      order_(order),
      post_(std::move(post)),
      ring_(std::move(ring)),
      all_(shm::all_bits(segment.geometry().shards[rank].blocks())),
      slots_(segment.geometry().slots) {}

std::uint64_t& RowsInstead::word_of(std::uint32_t slot, std::uint32_t column) const {
    return words_[std::size_t{slot} * segment_.geometry().max_batch + column];
}

void RowsInstead::go_on(const WatchedStep& step) {
    // Looked at each time: the writer may put its lean word back when it begins another epoch.
    if (shm::rows_ready(segment_, step.begun.step, rank_)) return;
    OfSlot& own = slots_[segment_.slot_of(step.begun.step)];
    if (own.opening != step.opening) own = {step.opening, 0, {}, false};
    if (!post_all(step, own)) return;
    if (all_laid(step)) return publish(step.begun, own);
    if (Clock::now() - own.posted > kUntilPostedAgain) own.next = 0;
}

bool RowsInstead::post_all(const WatchedStep& step, OfSlot& own) {
    const std::uint32_t slot = segment_.slot_of(step.begun.step);
    for (; own.next < step.begun.columns; ++own.next) {
        const auto address =
            reinterpret_cast<std::uint64_t>(words_address_ + (&word_of(slot, own.next) - words_.get()));
        if (!post_(step, {own.next, all_, address, step.opening})) return false;
        own.posted = Clock::now();
    }
    return true;
}

bool RowsInstead::all_laid(const WatchedStep& step) const {
    const std::uint32_t slot = segment_.slot_of(step.begun.step);
    for (std::uint32_t column = 0; column < step.begun.columns; ++column) {
        // SYNC: acquire; pairs with the GPU's store behind the blocks.
        if (std::atomic_ref(word_of(slot, column)).load(std::memory_order_acquire) != step.opening)
            return false;
    }
    return true;
}

void RowsInstead::publish(const BegunStep& step, OfSlot& own) const {
    const std::uint32_t slot = segment_.slot_of(step.step);
    const proto::Geometry& geometry = segment_.geometry();
    proto::ReadyCell& cell = segment_.ready(slot, rank_);
    const auto is_lean = [&step](std::uint64_t word) {
        const proto::ReadyWord now = proto::ReadyWord::unpack(word);
        // Of whichever epoch: its writer vouches for what was complete when it begins another one.
        return now.step_tag == step.word.step_tag && now.tiles == proto::ReadyWord::kLean;
    };
    if (!is_lean(cell.word.load(std::memory_order_relaxed))) return;
    if (geometry.has_summaries != 0 && !own.has_maxima) {
        const SliceMemory memory{segment_.logits(slot, rank_), segment_.maxima(slot, rank_).data(),
                                 geometry.maxima_stride(rank_)};
        lay_maxima(slice_shape(geometry, rank_, step.columns, order_), memory,
                   {0, geometry.tiles(rank_), 0, step.columns});
        own.has_maxima = true;
    }
    std::uint64_t now = cell.word.load(std::memory_order_relaxed);
    if (!is_lean(now)) return;
    cell.format = proto::SliceFormat::full_tiles;
    proto::ReadyWord rows = proto::ReadyWord::unpack(now);
    rows.tiles = geometry.tiles(rank_);
    // SYNC: release; who sees the word sees the tiles and their maxima.
    cell.word.compare_exchange_strong(now, rows.pack(), std::memory_order_release, std::memory_order_relaxed);
    ring_();
}

}  // namespace croupier::gpu_writer
