#include "shm/block_requests.h"

#include <algorithm>
#include <atomic>

#include "shm/logits_publisher.h"

namespace croupier::shm {

using proto::ReadyWord;
using proto::RequestWord;

namespace {

std::byte* bytes_of(proto::RequestCell& cell) {
    return reinterpret_cast<std::byte*>(&cell);
}

}  // namespace

std::vector<std::uint64_t> all_bits(std::uint32_t blocks) {
    std::vector<std::uint64_t> bits((blocks + 63) / 64, ~std::uint64_t{0});
    if (blocks % 64 != 0) bits.back() = (std::uint64_t{1} << blocks % 64) - 1;
    return bits;
}

// As ready words bear them: of a slice that is complete, its word has its writer's.
std::uint32_t writer_epochs(const Segment& segment) {
    std::uint32_t epochs = 0;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank)
        epochs += segment.header().writers[rank].epoch.load(std::memory_order_acquire);
    return epochs & 0xFFFFU;
}

std::uint64_t* BlockRequests::words(std::uint32_t column) const {
    const auto layout = proto::request_layout_of(segment_->geometry());
    return reinterpret_cast<std::uint64_t*>(bytes_of(segment_->request_cell(slot_, column)) + layout.bits);
}

std::span<const std::uint64_t> BlockRequests::bits(std::uint32_t column) const {
    return {words(column), proto::request_layout_of(segment_->geometry()).words};
}

std::atomic<std::uint64_t>& BlockRequests::answer(std::uint32_t column, std::uint32_t rank) const {
    const auto layout = proto::request_layout_of(segment_->geometry());
    return reinterpret_cast<std::atomic<std::uint64_t>*>(bytes_of(segment_->request_cell(slot_, column)) +
                                                         layout.answers)[rank];
}

// The word, where it is of this step and its present writers; else of round 0.
RequestWord BlockRequests::latest(std::uint32_t column) const {
    const RequestWord none{ReadyWord::tag_of(step_), epochs_, 0};
    const proto::RequestCell& cell = segment_->request_cell(slot_, column);
    // SYNC: acquire; pairs with the release fence in ask(): who sees the step sees its first word or a later
    // one, and not that of a step 2^28 before it.
    if (cell.step.load(std::memory_order_acquire) != step_) return none;
    // SYNC: acquire; pairs with the release in ask(): the bits are there.
    const RequestWord word = RequestWord::unpack(cell.asked.load(std::memory_order_acquire));
    return word.step_tag == none.step_tag && word.epochs == none.epochs ? word : none;
}

// Of a round whose bits are being written nothing is asked: who writes them has the claim, or died with it.
RequestWord BlockRequests::asked(std::uint32_t column) const {
    RequestWord word = latest(column);
    if (word.is_being_written()) word.round = 0;
    return word;
}

bool BlockRequests::awaited(std::uint32_t column) const {
    const RequestWord word = asked(column);
    if (word.round == 0) return false;
    for (std::uint32_t rank = 0; rank < segment_->geometry().tp; ++rank) {
        // SYNC: acquire; pairs with the writer's store, a GPU's too, behind the blocks.
        if (answer(column, rank).load(std::memory_order_acquire) != word.pack()) return true;
    }
    return false;
}

std::span<const std::uint64_t> BlockRequests::placed(std::uint32_t column) const {
    return asked(column).round == 0 ? std::span<const std::uint64_t>() : bits(column);
}

void BlockRequests::ask(std::uint32_t column, std::span<const std::uint64_t> blocks) const {
    RequestWord word = latest(column);
    proto::RequestCell& cell = segment_->request_cell(slot_, column);
    const bool keeps = word.round != 0 && !word.is_being_written();
    if (!word.is_being_written()) ++word.round;
    // Who dies from here on leaves bits that were asked for and do not stand in the slices: the next owner of
    // the claim must not believe them.
    cell.asked.store(word.pack(), std::memory_order_relaxed);
    // SYNC: release; neither the step nor a bit is seen before the word that says that they change.
    std::atomic_thread_fence(std::memory_order_release);
    if (word.round == 1) begin_cell(column);
    std::uint64_t* const all = words(column);
    for (std::size_t i = 0; i < blocks.size(); ++i) all[i] = keeps ? all[i] | blocks[i] : blocks[i];
    ++word.round;
    cell.asked.store(word.pack(), std::memory_order_release);
    // SYNC: release; a writer that sees the count sees the word. Who dies between the two leaves a block
    // request that a writer finds when it looks at all of them, which it does now and then.
    segment_->request_board(slot_).posted.fetch_add(1, std::memory_order_release);
    segment_->header().counter(proto::SessionCounter::block_requests).fetch_add(1, std::memory_order_relaxed);
}

// Rounds count from 1 in each step: an answer to a round of the same number, 2^28 steps ago, would pass for
// one of this step's. Who dies in here has the column's next owner begin the cell again.
void BlockRequests::begin_cell(std::uint32_t column) const {
    for (std::uint32_t rank = 0; rank < segment_->geometry().tp; ++rank)
        answer(column, rank).store(0, std::memory_order_relaxed);
    segment_->request_cell(slot_, column).step.store(step_, std::memory_order_relaxed);
}

std::uint64_t BlockRequests::posted() const {
    return segment_->request_board(slot_).posted.load(std::memory_order_acquire);
}

std::uint64_t BlockRequests::unanswered(std::uint32_t column, std::uint32_t rank) const {
    const RequestWord word = asked(column);
    if (word.round == 0) return 0;
    return answer(column, rank).load(std::memory_order_relaxed) == word.pack() ? 0 : word.pack();
}

}  // namespace croupier::shm
