#include "daemon/worker/session_view.h"

#include <algorithm>
#include <utility>

#include "proto/hotness_order.h"
#include "text/text_error.h"

namespace croupier::daemon {

shm::Result<SessionView::Orders> SessionView::copy_orders(const shm::Segment& segment) {
    Orders orders;
    if (segment.geometry().has_order == 0) return orders;
    const auto refused = [&segment](const std::string& whose, const std::string& fault) {
        return shm::fail(shm::Errc::corrupt_header, segment.path() + ": " + whose + " is refused: " + fault);
    };
    const auto model = segment.model_order();
    orders.model.assign(model.begin(), model.end());
    if (auto fault = proto::block_order_fault(orders.model, 0)) return refused("the model's order", *fault);
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const auto own = segment.order(rank);
        const std::uint32_t first = segment.geometry().shards[rank].first_block();
        const auto& blocks = orders.blocks.emplace_back(own.begin(), own.end());
        if (auto fault = proto::block_order_fault(blocks, first)) {
            return refused("the order of rank " + std::to_string(rank), *fault);
        }
        orders.places.push_back(proto::places_of(blocks, first));
    }
    return orders;
}

std::optional<text::TokenTable> SessionView::view_tokens(const shm::Segment& segment) {
    if (segment.token_table().empty()) return std::nullopt;
    try {
        return text::TokenTable::view(segment.token_table());
    } catch (const text::TextError&) {
        return std::nullopt;
    }
}

SessionView::SessionView(shm::Segment segment, Orders orders, std::uint32_t threads,
                         proto::StateTotals& totals)
    : segment_(std::move(segment)),
      orders_(std::move(orders)),
      tokens_(view_tokens(segment_)),
      states_(segment_.geometry().vocab, segment_.geometry().max_length, segment_.geometry().max_sequences,
              threads, totals),
      shares_(segment_.geometry(), threads),
      lists_(threads, SequenceLists(segment_.geometry())),
      own_slices_(threads, std::vector<sampler::Slice>(segment_.geometry().tp)),
      early_(segment_.geometry(), orders_.blocks),
      lean_(segment_.geometry(), threads),
      prepared_(segment_.geometry().slots),
      rehearsed_(segment_.geometry().slots),
      parts_decided_(segment_.geometry().slots),
      void_watch_(segment_.geometry().slots),
      late_ranks_(segment_.geometry().slots),
      captured_(threads),
      prefault_(segment_.mapping(), segment_.layout().bytes_at_open()) {
    const auto& geometry = segment_.geometry();
    id_ = segment_.id();
    exhausted_.resize(geometry.slots);
    slices_.resize(geometry.slots);
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const auto& shard = geometry.shards[rank];
            sampler::Slice slice{segment_.logits(slot, rank), shard.count, shard.first_id};
            slice.summaries = {segment_.maxima(slot, rank).data(), geometry.maxima_stride(rank)};
            if (geometry.has_order != 0) {
                slice.blocks = orders_.blocks[rank].data();
                slice.places = orders_.places[rank].data();
            }
            slices_[slot].push_back(slice);
        }
    }
}

shm::Result<std::unique_ptr<SessionView>> SessionView::make(shm::Segment segment, std::uint32_t threads,
                                                            proto::StateTotals& totals) {
    CROUPIER_TRY_VALUE(orders, copy_orders(segment));
    // Who follows a dead daemon waits until nobody decides any more. Sharing fails nowhere: nobody holds it
    // alone.
    segment.share(shm::Role::samplers);
    return std::unique_ptr<SessionView>(
        new SessionView(std::move(segment), std::move(orders), threads, totals));
}

std::span<const std::uint32_t> SessionView::hot_blocks(std::uint32_t choice) const {
    const std::size_t blocks = proto::blocks_of(proto::hot_size(choice));
    return std::span(orders_.model).first(std::min(blocks, orders_.model.size()));
}

bool SessionView::served() const {
    const auto state = segment_.header().state.load(std::memory_order_acquire);
    return state == proto::SessionState::active || state == proto::SessionState::draining;
}

ColumnRow SessionView::row(const CheckedStep& step, std::uint32_t column, std::size_t thread) {
    const auto& geometry = segment_.geometry();
    if (geometry.is_lean()) {
        return {lean_view(step, column, lean_.lay(segment_, step, column, thread, slices_[step.slot]))};
    }
    ColumnRow row{{geometry.dtype, geometry.vocab, geometry.tile, step.columns, column, slices_[step.slot]}};
    if (!early_.wanted()) return row;
    std::vector<sampler::Slice>& slices = own_slices_[thread];
    slices.assign(slices_[step.slot].begin(), slices_[step.slot].end());
    row.read_early = early_.finish(segment_, step, column, slices);
    if (row.read_early) row.view.slices = slices;
    return row;
}

std::optional<sampler::RowView> SessionView::rehearsal_row(const CheckedStep& step, std::uint32_t column,
                                                           const proto::race::Draw& drawn_by) {
    const auto& geometry = segment_.geometry();
    if (!geometry.is_lean()) return std::nullopt;
    const auto copied = lean_.copy(segment_, step, column, drawn_by, slices_[step.slot]);
    if (copied.empty()) return std::nullopt;
    return lean_view(step, column, copied);
}

sampler::RowView SessionView::lean_view(const CheckedStep& step, std::uint32_t column,
                                        std::span<const sampler::Slice> slices) const {
    const auto& geometry = segment_.geometry();
    const std::uint32_t places = geometry.row_places(step.columns);
    // A client may have changed the record since it was checked.
    const std::uint32_t place =
        geometry.max_windows == 0 ? column : std::min(shares_.window_of(step, column), places - 1);
    return {geometry.dtype, geometry.vocab, geometry.tile, places, place, slices};
}

bool SessionView::exhausted(std::uint64_t step) const {
    const std::uint32_t slot = segment_.slot_of(step);
    const Exhausted& memo = exhausted_[slot];
    return memo.step == step &&
           memo.reopened == segment_.decision_head(slot).reopened.load(std::memory_order_acquire);
}

void SessionView::note_exhausted(std::uint64_t step, std::uint32_t reopened_before) {
    exhausted_[segment_.slot_of(step)] = {step, reopened_before};
}

}  // namespace croupier::daemon
