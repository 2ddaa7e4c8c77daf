#include "shm/sequence_table.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "proto/param_ranges.h"

namespace croupier::shm {

using proto::SequenceState;

namespace {

void copy_lists(const NewSequence& sequence, proto::SequenceEntry& entry, std::int32_t* lists) {
    entry.allowed_count = static_cast<std::uint32_t>(sequence.allowed_ids.size());
    entry.bad_words_count = static_cast<std::uint32_t>(sequence.bad_words.size());
    entry.breakers_count = static_cast<std::uint32_t>(sequence.dry_breakers.size());
    entry.stop_words = static_cast<std::uint32_t>(sequence.stop_words.size());
    lists = std::copy(sequence.allowed_ids.begin(), sequence.allowed_ids.end(), lists);
    lists = std::copy(sequence.bad_words.begin(), sequence.bad_words.end(), lists);
    lists = std::copy(sequence.dry_breakers.begin(), sequence.dry_breakers.end(), lists);
    std::copy(sequence.stop_words.begin(), sequence.stop_words.end(), lists);
}

}  // namespace

void revise(const Segment& segment, std::uint32_t slot, std::uint32_t kept,
            std::optional<std::uint64_t> step) {
    auto& entry = segment.sequence(slot);
    entry.revised_by.store(step ? proto::revised_by_step(*step) : 0, std::memory_order_relaxed);
    const proto::Revision next{entry.revision(std::memory_order_relaxed).number + 1, kept};
    // SYNC: release; pairs with the acquire in due_of(), and with the next client's.
    entry.revised.store(next.pack(), std::memory_order_release);
    segment.header().revisions.fetch_add(1, std::memory_order_release);
}

bool revised_since(const Segment& segment, const proto::ScheduleColumn& column, std::uint64_t step) {
    const auto& entry = segment.sequence(column.sequence_slot);
    const std::uint32_t revision = entry.revision(std::memory_order_acquire).number;
    if (revision == column.revision) return false;
    const bool by_itself = entry.revised_by.load(std::memory_order_relaxed) == proto::revised_by_step(step);
    return revision != column.revision + 1 || !by_itself;
}

Error beyond_output(std::uint64_t uid, std::size_t outputs, std::uint32_t asked) {
    return {Errc::bad_argument, "sequence " + std::to_string(uid) + " has " + std::to_string(outputs) +
                                    " outputs: " + std::to_string(asked) + " of them cannot be kept"};
}

namespace {

// What was kept of so many outputs, or may be written over by what was in flight behind them, is kept no
// longer where a sequence that is cut back to `outputs` would look for it.
void forget_feedback(proto::KeptFeedback& feedback, std::uint32_t present, std::uint32_t outputs) {
    constexpr std::uint32_t kReach = proto::kFeedbackReach;
    for (std::uint32_t at = outputs - std::min(outputs, kReach); at + kReach < present && at <= outputs;
         ++at) {
        const std::atomic_ref<std::uint32_t> place(feedback[at % proto::kFeedbackKept].outputs);
        place.store(0, std::memory_order_relaxed);
    }
}

}  // namespace

Result<bool> check_room(const proto::Geometry& geometry, std::size_t live, const NewSequence& sequence) {
    const auto too_many = [](const char* what, std::size_t count, std::uint32_t room, const char* option) {
        return fail(Errc::bad_argument, "the sequence has " + std::to_string(count) + " " + what +
                                            ", the session was opened for " + std::to_string(room) +
                                            "; open it with a larger " + option);
    };
    const std::size_t tokens = sequence.prompt.size() + sequence.output.size();
    if (tokens >= geometry.max_length)
        return too_many("tokens", tokens, geometry.max_length - 1, "max_length");
    if (sequence.bias.size() > geometry.max_bias) {
        return too_many("logit biases", sequence.bias.size(), geometry.max_bias, "max_bias");
    }
    if (sequence.stop_ids.size() > geometry.max_stop_ids) {
        return too_many("stop ids", sequence.stop_ids.size(), geometry.max_stop_ids, "max_stop_ids");
    }
    const std::size_t words = sequence.allowed_ids.size() + sequence.bad_words.size() +
                              sequence.dry_breakers.size() + sequence.stop_words.size();
    if (words > geometry.max_list_tokens) {
        return too_many("words of allowed ids, bad words, DRY breakers and stop strings", words,
                        geometry.max_list_tokens, "max_list_tokens");
    }
    if (sequence.params.logprobs > geometry.max_logprobs) {
        return too_many("best log-probs", sequence.params.logprobs, geometry.max_logprobs, "max_logprobs");
    }
    if (sequence.params.support > geometry.max_support) {
        return too_many("tokens of its support", sequence.params.support, geometry.max_support,
                        "max_support");
    }
    if (live < geometry.max_sequences) return true;
    return fail(Errc::table_full, "all " + std::to_string(geometry.max_sequences) +
                                      " sequence slots are in use: finish one, or open the session with "
                                      "a larger max_sequences");
}

Result<bool> check_fork(const proto::Geometry& geometry, const Fork& fork, const ForkedFrom& parent) {
    if (fork.outputs > parent.outputs) return beyond_output(fork.parent, parent.outputs, fork.outputs);
    proto::SamplingParams asked;
    asked.rng = parent.rng;
    asked.child = fork.child;
    if (const auto fault = proto::param_fault(asked))
        return fail(Errc::bad_argument, proto::describe(*fault));
    const std::uint64_t tokens = std::uint64_t{parent.prompt_length} + fork.outputs;
    if (tokens < geometry.max_length) return true;
    return fail(Errc::bad_argument, "sequence " + std::to_string(fork.parent) + " has " +
                                        std::to_string(tokens) + " tokens with " +
                                        std::to_string(fork.outputs) +
                                        " outputs, and no room for another: go on from fewer, or open the "
                                        "session with a larger max_length");
}

Result<bool> check_known(const proto::SamplingParams& params, std::size_t bytes) {
    const auto* first = reinterpret_cast<const unsigned char*>(&params);
    const auto is_off = [](unsigned char byte) { return byte == 0; };
    if (bytes >= sizeof(params) || std::all_of(first + bytes, first + sizeof(params), is_off)) return true;
    return fail(Errc::wrong_version,
                std::string(proto::first_field_beyond(params, bytes)) +
                    " is set, which the daemon or the relay of this session does not know: it "
                    "is older than this library, of segment version " +
                    std::to_string(proto::kSegmentVersion) + "." + std::to_string(proto::kSegmentMinor) +
                    "; update it");
}

SequenceTable::SequenceTable(Segment& segment) : segment_(&segment) {
    const std::uint32_t slots = segment.geometry().max_sequences;
    for (std::uint32_t index = slots; index-- > 0;) {
        if (segment.sequence(index).state.load(std::memory_order_acquire) == SequenceState::free) {
            free_.push_back(index);
        }
    }
}

Result<std::uint32_t> SequenceTable::add(const NewSequence& sequence) {
    const auto& geometry = segment_->geometry();
    CROUPIER_TRY(check_room(geometry, geometry.max_sequences - free_.size(), sequence));
    const std::uint32_t index = free_.back();
    CROUPIER_TRY(check_known(sequence.params, segment_->params(index).bytes()));
    // And for a first token.
    const std::size_t tokens = sequence.prompt.size() + sequence.output.size() + 1;
    if (auto room = segment_->make_log_room(index, tokens); !room)
        return fail(Errc::no_memory, "sequence " + std::to_string(sequence.uid) + " of " +
                                         std::to_string(tokens - 1) + " tokens: " + room.error().message);
    free_.pop_back();
    auto& entry = segment_->sequence(index);
    entry.uid = sequence.uid;
    entry.hot_choice = sequence.parent ? segment_->sequence(*sequence.parent).hot_choice : next_hot_choice();
    proto::SamplingParams params = sequence.params;
    if (entry.hot_choice > 0) params.rng = proto::rng_with_hot_set(params.rng);
    segment_->params(index).store(params);
    entry.prompt_length = static_cast<std::uint32_t>(sequence.prompt.size());
    entry.bias_count = static_cast<std::uint16_t>(sequence.bias.size());
    entry.stop_count = static_cast<std::uint16_t>(sequence.stop_ids.size());
    std::copy(sequence.bias.begin(), sequence.bias.end(), segment_->biases(index));
    std::copy(sequence.stop_ids.begin(), sequence.stop_ids.end(), segment_->stop_ids(index));
    copy_lists(sequence, entry, segment_->lists(index));
    entry.owner.store(0, std::memory_order_relaxed);
    // 0 means that nobody had the slot yet.
    const std::uint32_t before = entry.admission.load(std::memory_order_relaxed);
    const std::uint32_t admission = before + 1 == 0 ? 1 : before + 1;
    segment_->feedback(index) = {};
    if (sequence.parent)
        inherit_feedback(*sequence.parent, index, static_cast<std::uint32_t>(sequence.output.size()),
                         admission);
    std::int32_t* log = segment_->token_log(index);
    log = std::copy(sequence.prompt.begin(), sequence.prompt.end(), log);
    std::copy(sequence.output.begin(), sequence.output.end(), log);
    entry.length.store(static_cast<std::uint32_t>(sequence.prompt.size() + sequence.output.size()),
                       std::memory_order_relaxed);
    // SYNC: release; pairs with the acquire of samplers, who read it first.
    entry.admission.store(admission, std::memory_order_release);
    // SYNC: release; pairs with the acquire of whoever reads the entry. A client that dies before this
    // store leaves a free slot.
    entry.state.store(SequenceState::live, std::memory_order_release);
    return index;
}

std::uint32_t SequenceTable::next_hot_choice() {
    const auto& header = segment_->header();
    const bool tries = ++admitted_ % proto::kHotTrialShare == 0;
    return (tries ? header.hot_trial : header.hot_choice).load(std::memory_order_relaxed);
}

// Of as many outputs back as a truncate would find. Samplers write to none of these: what is in flight, void
// or not, stands behind the most outputs that the sequence had since they were kept.
void SequenceTable::inherit_feedback(std::uint32_t parent, std::uint32_t child, std::uint32_t outputs,
                                     std::uint32_t admission) const {
    const auto& entry = segment_->sequence(parent);
    const std::uint32_t present = entry.length.load(std::memory_order_relaxed) - entry.prompt_length;
    const std::uint32_t kept_by = entry.admission.load(std::memory_order_relaxed);
    const auto& from = segment_->feedback(parent);
    auto& to = segment_->feedback(child);
    for (std::uint32_t at = outputs; at > 0 && at + proto::kFeedbackReach >= present; --at) {
        proto::FeedbackAfter left = from[at % proto::kFeedbackKept];
        if (left.outputs != at || left.admission != kept_by) continue;
        left.admission = admission;
        to[at % proto::kFeedbackKept] = left;
    }
}

Result<std::uint32_t> SequenceTable::fork(std::uint32_t parent, const Fork& fork) {
    const auto& entry = segment_->sequence(parent);
    const std::uint32_t length =
        std::min(entry.length.load(std::memory_order_relaxed), segment_->geometry().max_length);
    const std::uint32_t prompt = std::min(entry.prompt_length, length);
    const auto stored = segment_->params(parent);
    if (!stored.is_known()) {
        return fail(Errc::wrong_version,
                    "sequence " + std::to_string(fork.parent) +
                        " has a parameter that this library does not know, and its child "
                        "would lack it: it was added by a newer one; update this one");
    }
    const proto::SamplingParams params = stored;
    CROUPIER_TRY(check_fork(segment_->geometry(), fork, {length - prompt, prompt, params.rng}));
    const std::int32_t* log = segment_->token_log(parent);
    // Read once: another process may write to the segment. add() checks them.
    const std::size_t allowed = entry.allowed_count;
    const std::size_t words = entry.bad_words_count;
    const std::size_t breakers = entry.breakers_count;
    const std::size_t stops = entry.stop_words;
    const std::int32_t* lists = segment_->lists(parent);
    NewSequence sequence;
    sequence.uid = fork.uid;
    sequence.params = params;
    sequence.params.child = fork.child;
    sequence.prompt = {log, prompt};
    sequence.output = {log + prompt, fork.outputs};
    sequence.bias = {segment_->biases(parent), entry.bias_count};
    sequence.stop_ids = {segment_->stop_ids(parent), entry.stop_count};
    sequence.allowed_ids = {lists, allowed};
    sequence.bad_words = {lists + allowed, words};
    sequence.dry_breakers = {lists + allowed + words, breakers};
    sequence.stop_words = {lists + allowed + words + breakers, stops};
    sequence.parent = parent;
    return add(sequence);
}

void SequenceTable::make_room(std::uint32_t slot, std::uint64_t tokens) const {
    const std::uint64_t most = segment_->geometry().max_length;
    // The samplers find the room too small, and say so for this column alone.
    (void)segment_->make_log_room(slot, std::min(tokens, most));
}

void SequenceTable::end(std::uint32_t slot) {
    // In this order: a client that dies in between has finished nothing, and what is void is answered.
    auto& entry = segment_->sequence(slot);
    revise(*segment_, slot, entry.length.load(std::memory_order_relaxed));
    entry.state.store(SequenceState::ending, std::memory_order_release);
}

Result<bool> SequenceTable::truncate(std::uint32_t slot, std::uint32_t outputs) {
    auto& entry = segment_->sequence(slot);
    const std::uint32_t length = entry.length.load(std::memory_order_relaxed);
    const std::uint32_t present = length - std::min(entry.prompt_length, length);
    if (outputs > present) return beyond_output(entry.uid, present, outputs);
    // First: a client that dies before the next store has cut nothing off, but what it had in flight.
    revise(*segment_, slot, entry.prompt_length + outputs);
    forget_feedback(segment_->feedback(slot), present, outputs);
    // SYNC: release; pairs with the acquire in due_of(), which then finds the new revision.
    entry.length.store(entry.prompt_length + outputs, std::memory_order_release);
    return true;
}

std::vector<std::uint32_t> SequenceTable::ending() const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t index = 0; index < segment_->geometry().max_sequences; ++index) {
        const auto& state = segment_->sequence(index).state;
        if (state.load(std::memory_order_acquire) == SequenceState::ending) found.push_back(index);
    }
    return found;
}

void SequenceTable::remove(std::uint32_t slot) {
    segment_->sequence(slot).state.store(SequenceState::free, std::memory_order_release);
    segment_->give_back_log(slot);
    free_.push_back(slot);
}

std::vector<LiveSequence> SequenceTable::live() const {
    std::vector<LiveSequence> found;
    const auto& geometry = segment_->geometry();
    for (std::uint32_t index = 0; index < geometry.max_sequences; ++index) {
        const auto& entry = segment_->sequence(index);
        if (entry.state.load(std::memory_order_acquire) != SequenceState::live) continue;
        const std::uint32_t length =
            std::min(entry.length.load(std::memory_order_acquire), geometry.max_length);
        const std::uint32_t prompt = std::min(entry.prompt_length, length);
        const std::int32_t* log = segment_->token_log(index);
        found.push_back({index, entry.uid, {log, prompt}, {log + prompt, length - prompt}});
    }
    return found;
}

}  // namespace croupier::shm
