// The scheduler's side of the sequence table: admission, and what a new client finds after a death.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shm/segment.h"

namespace croupier::shm {

struct NewSequence {
    std::uint64_t uid = 0;
    proto::SamplingParams params;
    std::span<const std::int32_t> prompt;
    std::span<const std::int32_t> output;  // decided before: a sequence that comes back
    std::span<const proto::TokenBias> bias;
    std::span<const std::int32_t> stop_ids;
    std::span<const std::int32_t> allowed_ids;
    std::span<const std::int32_t> bad_words;     // several lists in one: each list's length, then its ids
    std::span<const std::int32_t> dry_breakers;  // likewise
    std::span<const std::int32_t> stop_words;    // proto/stop_words.h
    std::optional<std::uint32_t> parent = std::nullopt;  // the slot of the sequence that it goes on from
};

// Another sequence, which goes on from the first outputs of one that is live, with all that it asked for.
struct Fork {
    std::uint64_t parent = 0;
    std::uint64_t uid = 0;
    std::uint32_t outputs = 0;
    std::uint32_t child = 0;  // its number (proto/philox.h)
};

struct LiveSequence {
    std::uint32_t slot = 0;
    std::uint64_t uid = 0;
    std::span<const std::int32_t> prompt;
    std::span<const std::int32_t> output;
};

// Whether a session of this geometry, which has so many live sequences, has room for one more of this size.
Result<bool> check_room(const proto::Geometry& geometry, std::size_t live, const NewSequence& sequence);

// What a fork depends on besides the table's room.
struct ForkedFrom {
    std::size_t outputs = 0;
    std::uint32_t prompt_length = 0;
    proto::Rng rng = proto::Rng::race;
};
Result<bool> check_fork(const proto::Geometry& geometry, const Fork& fork, const ForkedFrom& parent);

// Whether builds that know so many bytes of the parameters know all that are set.
Result<bool> check_known(const proto::SamplingParams& params, std::size_t bytes);

// What is in flight of the slot's sequence is void from now on, and its log keeps so many tokens: because of
// a decision that was taken of this step, or for another reason.
void revise(const Segment& segment, std::uint32_t slot, std::uint32_t kept,
            std::optional<std::uint64_t> step = std::nullopt);
// Whether a column is void for its client. Not where the decision that ended its sequence is its own: its
// client died before it was done with the step.
bool revised_since(const Segment& segment, const proto::ScheduleColumn& column, std::uint64_t step);

Error beyond_output(std::uint64_t uid, std::size_t outputs, std::uint32_t asked);

// The table's one author is the session's client.
class SequenceTable {
  public:
    explicit SequenceTable(Segment& segment);

    // Checks lengths against the session's room; what the ids and parameters mean is the sampler's to check.
    Result<std::uint32_t> add(const NewSequence& sequence);
    // Its feedback and hot set are the parent's.
    Result<std::uint32_t> fork(std::uint32_t parent, const Fork& fork);
    // Before a step is published that may bring the sequence its token number `tokens`, prompt and output
    // together. Where there is no memory the step's column is answered with an error.
    void make_room(std::uint32_t slot, std::uint64_t tokens) const;
    // The slot may be reused: no step in flight may name it any more.
    void remove(std::uint32_t slot);
    // The same sequence while steps in flight name it: what of them is not decided is void. remove() follows.
    void end(std::uint32_t slot);
    // Cuts the sequence's outputs back to so many; what is in flight of it is void.
    Result<bool> truncate(std::uint32_t slot, std::uint32_t outputs);
    // Of an earlier client: ended, and not removed.
    std::vector<std::uint32_t> ending() const;
    std::vector<LiveSequence> live() const;

  private:
    std::uint32_t next_hot_choice();
    void inherit_feedback(std::uint32_t parent, std::uint32_t child, std::uint32_t outputs,
                          std::uint32_t admission) const;

    Segment* segment_;
    std::vector<std::uint32_t> free_;
    std::uint64_t admitted_ = 0;
};

}  // namespace croupier::shm
