#include "client/live_sequences.h"

#include <algorithm>
#include <atomic>
#include <string>

namespace croupier::client {
namespace {

using shm::Errc;

std::string named(std::uint64_t uid) {
    return "sequence " + std::to_string(uid);
}

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
    for (const shm::LiveSequence& found : table_.live()) by_uid_.emplace(found.uid, Place{found.slot, {}});
}

shm::Result<const LiveSequences::Place*> LiveSequences::find(std::uint64_t uid) const {
    const auto found = by_uid_.find(uid);
    if (found != by_uid_.end()) return &found->second;
    return shm::fail(Errc::unknown_sequence, named(uid) + " is not live in this session (" +
                                                 std::to_string(by_uid_.size()) + " are): add it first");
}

shm::Result<bool> LiveSequences::add(const shm::NewSequence& sequence) {
    if (by_uid_.contains(sequence.uid)) {
        return shm::fail(Errc::bad_argument,
                         named(sequence.uid) + " is live already: finish it first, or choose another uid");
    }
    auto slot = table_.add(sequence);
    if (!slot) return slot.error();
    by_uid_.emplace(sequence.uid, Place{slot.value(), {}});
    return true;
}

shm::Result<bool> LiveSequences::remove(std::uint64_t uid) {
    auto place = find(uid);
    if (!place) return place.error();
    if (place.value()->step) {
        return shm::fail(Errc::bad_argument,
                         named(uid) + " is in step " + std::to_string(*place.value()->step) +
                             ", which is in flight: wait for that step before finishing it");
    }
    table_.remove(place.value()->slot);
    by_uid_.erase(uid);
    return true;
}

std::size_t LiveSequences::list(std::span<std::uint64_t> uids) const {
    std::size_t written = 0;
    for (const auto& [uid, place] : by_uid_) {
        if (written == uids.size()) break;
        uids[written++] = uid;
    }
    return by_uid_.size();
}

shm::Result<std::span<const std::int32_t>> LiveSequences::output(std::uint64_t uid) const {
    auto place = find(uid);
    if (!place) return place.error();
    const std::uint32_t slot = place.value()->slot;
    const LogLengths lengths = lengths_of(segment_->sequence(slot), segment_->geometry().max_length);
    return std::span<const std::int32_t>(segment_->token_log(slot) + lengths.prompt, lengths.output);
}

shm::Result<proto::ScheduleColumn> LiveSequences::enter(std::uint64_t uid, std::uint64_t step) {
    const auto found = by_uid_.find(uid);
    if (found == by_uid_.end()) return find(uid).error();
    Place& place = found->second;
    if (place.step == step) {
        return shm::fail(Errc::bad_argument,
                         named(uid) + " stands in two columns of one step: it may stand in one");
    }
    if (place.step) {
        return shm::fail(Errc::bad_argument, named(uid) + " is still in step " + std::to_string(*place.step) +
                                                 ", which is in flight: wait for that step first");
    }
    place.step = step;
    const proto::SequenceEntry& entry = segment_->sequence(place.slot);
    proto::ScheduleColumn column;
    column.sequence_uid = uid;
    column.sequence_slot = place.slot;
    column.position = lengths_of(entry, segment_->geometry().max_length).output;
    column.temperature = static_cast<float>(entry.params.temperature);
    return column;
}

void LiveSequences::leave(std::uint64_t uid, std::uint64_t step) {
    const auto found = by_uid_.find(uid);
    if (found != by_uid_.end() && found->second.step == step) found->second.step.reset();
}

}  // namespace croupier::client
