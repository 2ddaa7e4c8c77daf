#include "client/live_sequences.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "proto/stop_words.h"

namespace croupier::client {
namespace {

struct LogLengths {
    std::uint32_t prompt;
    std::uint32_t output;
};

// Other processes may write to the segment, so the length is checked before it bounds a copy.
LogLengths lengths_of(const proto::SequenceEntry& entry, std::uint32_t max_length) {
    const std::uint32_t length = std::min(entry.length.load(std::memory_order_acquire), max_length);
    const std::uint32_t prompt = std::min(entry.prompt_length, length);
    return {prompt, length - prompt};
}

}  // namespace

LiveSequences::LiveSequences(shm::Segment& segment)
    : segment_(&segment),
      table_(segment),
      by_slot_(segment.geometry().max_sequences),
      revisions_(segment.geometry().max_sequences) {
    // The table may hold anything: a uid twice, or a slot that changes between the two reads.
    for (const shm::LiveSequence& found : table_.live()) {
        if (!uids_.check_new(found.uid)) continue;
        uids_.insert(found.uid, found.slot);
        by_slot_[found.slot] = uids_.find(found.uid).value();
    }
    for (const std::uint32_t slot : table_.ending()) {
        if (by_slot_[slot] == nullptr)
            by_slot_[slot] = uids_.insert_finished(segment.sequence(slot).uid, slot);
    }
    for (std::uint32_t slot = 0; slot < revisions_.size(); ++slot)
        revisions_[slot] = segment.sequence(slot).revision(std::memory_order_relaxed).number;
}

shm::Result<bool> LiveSequences::add(const shm::NewSequence& sequence) {
    CROUPIER_TRY(uids_.check_new(sequence.uid));
    CROUPIER_TRY_VALUE(slot, table_.add(sequence));
    insert(sequence.uid, slot);
    return true;
}

shm::Result<bool> LiveSequences::fork(const shm::Fork& fork) {
    CROUPIER_TRY_VALUE(parent, uids_.find(fork.parent));
    CROUPIER_TRY(uids_.check_new(fork.uid));
    CROUPIER_TRY_VALUE(slot, table_.fork(parent->place, fork));
    insert(fork.uid, slot);
    return true;
}

void LiveSequences::insert(std::uint64_t uid, std::uint32_t slot) {
    uids_.insert(uid, slot);
    revisions_[slot] = segment_->sequence(slot).revision(std::memory_order_relaxed).number;
}

shm::Result<bool> LiveSequences::finish(std::uint64_t uid) {
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    Entry& entry = *found;
    const bool in_flight = entry.in_flight > 0;
    if (in_flight) table_.end(entry.place);
    if (const auto slot = uids_.finish(entry)) table_.remove(*slot);
    return in_flight;
}

std::optional<std::uint32_t> LiveSequences::slot_of(std::uint64_t uid) const {
    auto found = uids_.find(uid);
    if (!found) return std::nullopt;
    return found.value()->place;
}

shm::Result<bool> LiveSequences::truncate(std::uint64_t uid, std::uint32_t outputs) {
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    Entry& entry = *found;
    CROUPIER_TRY(table_.truncate(entry.place, outputs));
    uids_.make_void(entry);
    revisions_[entry.place] = segment_->sequence(entry.place).revision(std::memory_order_relaxed).number;
    return entry.in_flight > 0;
}

shm::Result<bool> LiveSequences::check_append(std::uint64_t uid, std::size_t count) const {
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    const auto refuse = [&](const std::string& fault) {
        return shm::fail(shm::Errc::bad_argument, "sequence " + std::to_string(uid) + fault);
    };
    // A decision in flight, void or not, writes its token where the appended ones would lie.
    if (found->in_flight > 0)
        return refuse(" stands in " + std::to_string(found->in_flight) +
                      " steps in flight, and nothing can be appended to it: wait for them first");
    const std::uint32_t room = segment_->geometry().max_length;
    const LogLengths lengths = lengths_of(segment_->sequence(found->place), room);
    const std::uint64_t tokens = std::uint64_t{lengths.prompt} + lengths.output + count;
    if (tokens < room) return true;
    return refuse(" would have " + std::to_string(tokens) + " tokens with " + std::to_string(count) +
                  " appended, and no room for another: open the session with a max_length above " +
                  std::to_string(room));
}

shm::Result<bool> LiveSequences::append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
    CROUPIER_TRY(check_append(uid, tokens.size()));
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    const std::uint32_t slot = found->place;
    proto::SequenceEntry& entry = segment_->sequence(slot);
    const LogLengths lengths = lengths_of(entry, segment_->geometry().max_length);
    const std::uint32_t before = lengths.prompt + lengths.output;
    const auto after = before + static_cast<std::uint32_t>(tokens.size());
    CROUPIER_TRY(segment_->make_log_room(slot, after));
    std::copy(tokens.begin(), tokens.end(), segment_->token_log(slot) + before);
    // What is kept there is of tokens that a truncate cut off.
    for (std::uint32_t outputs = lengths.output + 1; outputs <= after - lengths.prompt; ++outputs) {
        auto& kept = segment_->feedback(slot)[outputs % proto::kFeedbackKept].outputs;
        std::atomic_ref<std::uint32_t>(kept).store(0, std::memory_order_relaxed);
    }
    // SYNC: release; pairs with the acquire in due_of().
    entry.length.store(after, std::memory_order_release);
    return true;
}

shm::Result<std::span<const std::int32_t>> LiveSequences::output(std::uint64_t uid) const {
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    const std::uint32_t slot = found->place;
    const LogLengths lengths = lengths_of(segment_->sequence(slot), segment_->geometry().max_length);
    return std::span<const std::int32_t>(segment_->token_log(slot) + lengths.prompt, lengths.output);
}

shm::Result<FoundText> LiveSequences::found_text(std::uint64_t uid) const {
    CROUPIER_TRY_VALUE(found, uids_.find(uid));
    const std::uint32_t slot = found->place;
    const proto::SequenceEntry& entry = segment_->sequence(slot);
    const LogLengths lengths = lengths_of(entry, segment_->geometry().max_length);
    const std::int32_t* const log = segment_->token_log(slot);
    FoundText text;
    text.uid = uid;
    text.output.assign(log + lengths.prompt, log + lengths.prompt + lengths.output);
    if (segment_->geometry().token_table_bytes == 0) return text;
    // Whole prompts of all sequences may be more than a relay's message can have.
    text.prompt = text::looked_at({log, lengths.prompt});
    const proto::SamplingParams params = segment_->params(slot);
    text.min_tokens = params.min_tokens;
    text.flags = params.flags;
    const std::uint64_t before =
        std::uint64_t{entry.allowed_count} + entry.bad_words_count + entry.breakers_count;
    const std::uint64_t count = entry.stop_words;
    auto stops = before + count <= segment_->geometry().max_list_tokens
                     ? proto::read_stop_words({segment_->lists(slot) + before, count})
                     : std::nullopt;
    if (!stops) {
        return shm::fail(shm::Errc::corrupt_header,
                         "sequence " + std::to_string(uid) + " has stop strings that are none");
    }
    text.stop_strings = std::move(*stops);
    return text;
}

void LiveSequences::prefetch(std::uint64_t uid) const {
    if (const auto slot = slot_of(uid)) __builtin_prefetch(&segment_->sequence(*slot));
}

shm::Result<LiveSequences::Asked> LiveSequences::ask(std::uint64_t uid, std::uint64_t step,
                                                     std::uint32_t rows) {
    CROUPIER_TRY_VALUE(found, uids_.ask(uid, rows));
    Entry& entry = *found;
    const proto::SequenceEntry& sequence = segment_->sequence(entry.place);
    proto::ScheduleColumn column;
    column.sequence_uid = uid;
    column.sequence_slot = entry.place;
    // A pending window brings a token at least, and one for each row at most. The log may have them already,
    // where an earlier client died as it took them.
    const LogLengths lengths = lengths_of(sequence, segment_->geometry().max_length);
    column.position = entry.pending > 0 ? std::max(entry.next_position, lengths.output) : lengths.output;
    table_.make_room(entry.place, std::uint64_t{lengths.prompt} + lengths.output + entry.rows + rows);
    column.ticket = entry.next_ticket;
    column.revision = sequence.revision(std::memory_order_relaxed).number;
    if (entry.in_flight > 0) {
        column.after_steps = static_cast<std::uint16_t>(step - entry.last_step);
        column.after_column = static_cast<std::uint16_t>(entry.last_column);
    }
    return Asked{column, &entry};
}

void LiveSequences::enter(Entry& entry, std::uint64_t step, std::uint32_t index,
                          const proto::ScheduleColumn& column) {
    if (column.row == 0) {
        uids_.enter(entry, step, index, column.position);
    } else {
        uids_.enter_row(entry, index);
    }
}

LiveSequences::Entry* LiveSequences::recall(const proto::ScheduleColumn& column, std::uint64_t step,
                                            std::uint32_t index) {
    if (column.sequence_slot >= by_slot_.size()) return nullptr;
    Entry* entry = by_slot_[column.sequence_slot];
    if (entry == nullptr || entry->uid != column.sequence_uid) return nullptr;
    // The rows of a window stand one after another.
    const bool more = entry->in_flight > 0 && entry->last_step == step && entry->last_column + 1 == index;
    if (more) {
        uids_.enter_row(*entry, index);
    } else if (shm::revised_since(*segment_, column, step)) {
        uids_.enter_void(*entry, step, index);
    } else {
        uids_.enter(*entry, step, index, column.position);
    }
    entry->next_ticket = column.ticket + 1;
    return entry;
}

void LiveSequences::recalled_all() {
    for (const std::uint32_t slot : uids_.forget_idle()) table_.remove(slot);
    by_slot_ = {};
}

void LiveSequences::leave(Entry& entry, std::uint64_t step, std::uint32_t rows) {
    const std::uint32_t slot = entry.place;
    const std::uint32_t revision = segment_->sequence(slot).revision(std::memory_order_relaxed).number;
    const auto idle = uids_.leave(entry, step, rows);
    if (idle) return table_.remove(*idle);
    // The decision ended the sequence, so its later columns in flight are void.
    if (revision != revisions_[slot]) uids_.make_void(entry);
    revisions_[slot] = revision;
}

}  // namespace croupier::client
