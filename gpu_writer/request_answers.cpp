#include "gpu_writer/request_answers.h"

#include <algorithm>
#include <utility>

#include "shm/block_requests.h"

namespace croupier::gpu_writer {

void own_bits(std::span<const std::uint64_t> all, std::uint32_t first_block, std::uint32_t blocks,
              std::span<std::uint64_t> own) {
    const std::size_t word = first_block / 64;
    const std::uint32_t shift = first_block % 64;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const std::uint64_t low = word + i < all.size() ? all[word + i] >> shift : 0;
        const bool more = shift > 0 && word + i + 1 < all.size();
        own[i] = more ? low | all[word + i + 1] << (64 - shift) : low;
    }
    // The next rank's first blocks.
    if (blocks % 64 != 0) own[blocks / 64] &= (std::uint64_t{1} << (blocks % 64)) - 1;
}

RequestAnswers::RequestAnswers(const shm::Segment& segment, std::uint32_t rank, Answer answer)
    : segment_(segment),
      rank_(rank),
      answer_(std::move(answer)),
      seen_(segment.geometry().slots),
      answered_(std::size_t{segment.geometry().slots} * segment.geometry().max_batch),
      answered_in_(segment.geometry().slots, ~0ULL) {}

void RequestAnswers::repeat(std::uint64_t step) {
    const std::uint32_t slot = segment_.slot_of(step);
    const std::uint32_t columns = segment_.geometry().max_batch;
    const auto own = std::span(answered_).subspan(std::size_t{slot} * columns, columns);
    std::fill(own.begin(), own.end(), 0);
    seen_[slot] = 0;
}

std::size_t RequestAnswers::look(const WatchedStep& watched, bool at_all) {
    const BegunStep& step = watched.begun;
    const std::uint32_t slot = segment_.slot_of(step.step);
    const shm::BlockRequests requests(segment_, step.step, shm::writer_epochs(segment_));
    const std::uint64_t posted = requests.posted();
    if (posted == seen_[slot] && !at_all) return 0;
    // A word comes round after 2^28 steps: that of another step answers none of this one's.
    if (std::exchange(answered_in_[slot], step.step) != step.step) repeat(step.step);
    std::size_t found = 0;
    bool all = true;
    for (std::uint32_t column = 0; column < step.columns; ++column) {
        const std::uint64_t word = requests.unanswered(column, rank_);
        std::uint64_t& answered = answered_[std::size_t{slot} * segment_.geometry().max_batch + column];
        if (word == 0 || word == answered) continue;
        if (answer_(watched, {column, word, requests.bits(column)})) {
            answered = word;
            ++found;
        } else {
            all = false;
        }
    }
    if (all) seen_[slot] = posted;
    return found;
}

}  // namespace croupier::gpu_writer
