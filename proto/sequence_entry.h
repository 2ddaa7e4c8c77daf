// A sequence: its parameters, and the token log that is the truth about it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/decision.h"
#include "proto/geometry.h"
#include "proto/sampling.h"

namespace croupier::proto {

// `ending`: finished, and named by steps in flight still.
enum class SequenceState : std::uint32_t { free = 0, live = 1, ending = 2 };

// A truncate by up to so many outputs, a whole window, finds the feedback of that time; by more, the sequence
// begins with fresh feedback. As many again may be decided beyond the outputs that are taken, and overwrite
// none that is kept.
constexpr std::uint32_t kFeedbackReach = kMaxSlots;
constexpr std::uint32_t kFeedbackKept = 2 * kFeedbackReach + 1;

// The feedback after so many outputs: what the decision of position `outputs` reads.
struct FeedbackAfter {
    Feedback feedback;
    std::uint32_t outputs = 0;    // 0: none was left, as before the first output
    std::uint32_t admission = 0;  // the entry's, when it was left
};
static_assert(sizeof(FeedbackAfter) == 24);

// Between two revisions a log only grows, and one keeps `kept` tokens of it: what was derived under the
// number before stands as far as that.
struct Revision {
    std::uint32_t number = 0;
    std::uint32_t kept = 0;  // of prompt and output

    static constexpr Revision unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32U), static_cast<std::uint32_t>(word)};
    }
    constexpr std::uint64_t pack() const { return std::uint64_t{number} << 32U | kept; }
};

// After the entry lie its parameters, its feedback, its biases, its stop ids and its lists (allowed ids, then
// bad words, then DRY breakers, then stop strings). Its log (prompt, then output) lies on pages of its own.
struct alignas(64) SequenceEntry {
    std::atomic<SequenceState> state;  // `live` is stored last, with release
    std::uint32_t prompt_length;
    // Prompt and output. The client's: it grows when the client takes a decision, so that neither a token
    // that is not committed nor one that was answered with an error is ever part of the log.
    std::atomic<std::uint32_t> length;
    std::uint16_t bias_count;
    std::uint16_t stop_count;
    std::uint32_t allowed_count;
    std::uint32_t bad_words_count;  // words: each list's length, then its ids
    std::uint32_t breakers_count;   // likewise
    // How many sequences have had this slot: what is derived from one must not pass for another's, and a uid
    // may be used again. Stored after all of the sequence, with release: who reads it first and finds it new
    // reads nothing of the one before.
    std::atomic<std::uint32_t> admission;
    // The client's, a packed Revision: its number grows when what is in flight of the sequence is void. It
    // was finished or truncated, or the client took a decision that ends it. Stored with release.
    std::atomic<std::uint64_t> revised;
    std::uint64_t uid;
    std::uint32_t hot_choice;  // proto/hot_set.h; the session's when the sequence was admitted
    // For so many tokens the log has memory: the client allocates it before it submits a step that may need
    // it. A decision beyond it is answered with no_memory, and neither read nor written is what lies there.
    std::atomic<std::uint32_t> log_room;
    // What revised it: a decision that was taken of a step (revised_by_step()); 0: a truncate or a finish.
    // Stored before the revision.
    std::atomic<std::uint32_t> revised_by;
    std::uint32_t stop_words;  // of its stop strings (proto/stop_words.h)
    // Which lane, a sampler's thread, has last derived a state of it, and 1; 0: none, or there is nothing to
    // derive. A hint for the division of steps: no decision depends on it. On a line that only samplers
    // write.
    alignas(64) std::atomic<std::uint32_t> owner;
    std::uint32_t reserved_of_samplers[15];  // 0

    Revision revision(std::memory_order order) const { return Revision::unpack(revised.load(order)); }
};
static_assert(kMaxBias <= 0xFFFF && kMaxStopIds <= 0xFFFF);
static_assert(offsetof(SequenceEntry, uid) == 40 && offsetof(SequenceEntry, hot_choice) == 48);
static_assert(offsetof(SequenceEntry, owner) == 64);
static_assert(sizeof(SequenceEntry) == 128);

// The highest bit and the step's low ones: 0 for no step. Only steps in flight are told apart.
constexpr std::uint32_t revised_by_step(std::uint64_t step) {
    return std::uint32_t{1} << 31U | static_cast<std::uint32_t>(step);
}

// A decision may be made again after its sampler's death: position p reads one and writes the next, so that
// the second time it reads what the first time read, and writes the same. By `outputs` modulo their number,
// so that a truncated sequence finds what it had; on cache lines that only decisions with feedback touch.
using KeptFeedback = std::array<FeedbackAfter, kFeedbackKept>;

}  // namespace croupier::proto
