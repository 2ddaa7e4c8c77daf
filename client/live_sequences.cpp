#include "client/live_sequences.h"

#include <algorithm>
#include <atomic>

namespace croupier::client {
namespace {

struct LogLengths {
    std::uint32_t prompt;
    std::uint32_t output;
};

// The samplers write the length: it bounds a copy here, so it is not trusted.
LogLengths lengths_of(const proto::SequenceEntry& entry, std::uint32_t max_length) {
    const std::uint32_t length = std::min(entry.length.load(std::memory_order_acquire), max_length);
    const std::uint32_t prompt = std::min(entry.prompt_length, length);
    return {prompt, length - prompt};
}

}  // namespace

LiveSequences::LiveSequences(shm::Segment& segment) : segment_(&segment), table_(segment) {
    for (const shm::LiveSequence& found : table_.live()) slots_.insert(found.uid, found.slot);
}

shm::Result<bool> LiveSequences::add(const shm::NewSequence& sequence) {
    if (auto fresh = slots_.check_new(sequence.uid); !fresh) return fresh;
    auto slot = table_.add(sequence);
    if (!slot) return slot.error();
    slots_.insert(sequence.uid, slot.value());
    return true;
}

shm::Result<bool> LiveSequences::remove(std::uint64_t uid) {
    if (auto idle = slots_.check_finish(uid); !idle) return idle;
    table_.remove(*slots_.find(uid).value());
    slots_.erase(uid);
    return true;
}

shm::Result<std::span<const std::int32_t>> LiveSequences::output(std::uint64_t uid) const {
    auto found = slots_.find(uid);
    if (!found) return found.error();
    const std::uint32_t slot = *found.value();
    const LogLengths lengths = lengths_of(segment_->sequence(slot), segment_->geometry().max_length);
    return std::span<const std::int32_t>(segment_->token_log(slot) + lengths.prompt, lengths.output);
}

shm::Result<proto::ScheduleColumn> LiveSequences::enter(std::uint64_t uid, std::uint64_t step) {
    auto entered = slots_.enter(uid, step);
    if (!entered) return entered.error();
    const std::uint32_t slot = *entered.value();
    const proto::SequenceEntry& entry = segment_->sequence(slot);
    proto::ScheduleColumn column;
    column.sequence_uid = uid;
    column.sequence_slot = slot;
    column.position = lengths_of(entry, segment_->geometry().max_length).output;
    column.temperature = static_cast<float>(entry.params.temperature);
    return column;
}

}  // namespace croupier::client
