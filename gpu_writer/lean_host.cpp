#include "gpu_writer/lean_host.h"

#include <cstring>

#include "gpu_writer/column_wants.h"
#include "gpu_writer/lean_layout.h"
#include "shm/block_requests.h"

namespace croupier::gpu_writer {

LeanHost::LeanHost(const shm::Segment& segment, std::uint32_t rank, std::chrono::nanoseconds answered_at_most)
    : segment_(segment),
      rank_(rank),
      row_bytes_(std::size_t{segment.geometry().real_ids(rank)} *
                 proto::element_bytes(segment.geometry().dtype)),
      kept_(segment.geometry().slots),
      wants_(std::size_t{segment.geometry().slots} * segment.geometry().max_batch),
      lists_(NamedIds::room_for(segment.geometry())),
      names_(lists_, segment.geometry().max_batch),
      order_(segment.geometry().max_batch),
      bits_((segment.geometry().shards[rank].blocks() + 63) / 64),
      watcher_(segment, rank,
               {.answer =
                    [this](const WatchedStep& step, const BlockRequest& request) {
                        answer(step.begun, request);
                        return true;
                    },
                // In `kept_`.
                .stays = [](const WatchedStep&) { return true; }},
               answered_at_most) {}

void LeanHost::lay(const BegunStep& step, std::span<const void* const> rows) {
    const std::uint32_t slot = segment_.slot_of(step.step);
    watcher_.watch(step);
    std::vector<std::byte>& kept = kept_[slot];
    kept.resize(step.columns * row_bytes_);
    for (std::uint32_t column = 0; column < step.columns; ++column)
        std::memcpy(kept.data() + column * row_bytes_, rows[column], row_bytes_);
    proto::ReadyWord complete = step.word;
    complete.tiles = proto::ReadyWord::kLean;
    const auto columns = segment_.schedule_columns(slot).part(0, step.columns);
    const std::span<LeanWant> wants = wants_of(step);
    read_wants(segment_, columns, names_, wants);
    LeanShape shape = lean_shape(segment_.geometry(), rank_, step.columns);
    shape.masks = masks_of(segment_, step.step);
    shape.names = names_.names();
    order_.read(columns, (segment_.schedule(slot).flags & proto::kWindows) != 0);
    const auto places = order_.places();
    for (std::size_t place = 0; place < places.size(); ++place) {
        const auto [column, part] = places[place];
        lay_lean_column(shape, column, wants[column], rows[column],
                        {segment_.lean(slot, rank_), segment_.logits(slot, rank_)});
        const bool ends = place + 1 == places.size() || places[place + 1].part != part;
        if (!ends || part == order_.last_part()) continue;
        // SYNC: release; pairs with the acquire in SentColumns: the part's columns are there.
        segment_.ready(slot, rank_).stamps[part].store(complete.pack(), std::memory_order_release);
    }
}

std::span<LeanWant> LeanHost::wants_of(const BegunStep& step) {
    const std::size_t first = std::size_t{segment_.slot_of(step.step)} * segment_.geometry().max_batch;
    return std::span(wants_).subspan(first, step.columns);
}

void LeanHost::answer(const BegunStep& step, const BlockRequest& request) {
    const std::uint32_t slot = segment_.slot_of(step.step);
    const LeanShape shape = lean_shape(segment_.geometry(), rank_, step.columns);
    const shm::BlockRequests board(segment_, step.step, shm::writer_epochs(segment_));
    own_bits(request.bits, shape.first_block, shape.slice.blocks, bits_);
    lay_blocks(shape, wants_of(step)[request.column].place, kept_[slot].data() + request.column * row_bytes_,
               bits_, segment_.logits(slot, rank_));
    // SYNC: release; pairs with the acquire in BlockRequests::awaited: the blocks are there.
    board.answer(request.column, rank_).store(request.word, std::memory_order_release);
}

}  // namespace croupier::gpu_writer
