// What a sampler's threads have derived from the token logs of one session: by thread, because two columns
// that a broken client gave the same sequence may be decided at once. All of it can be derived again, so it
// is bounded: what was used least recently is dropped, what has finished is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/worker/stop_search.h"
#include "proto/plane.h"
#include "proto/sampling.h"
#include "sampler/sequence_state.h"
#include "shm/segment.h"

namespace croupier::daemon {

// Of the slot's present or last sequence; 0, which none has, where there is no such slot.
std::uint32_t admission_in(const shm::Segment& segment, std::uint32_t slot);

class SequenceStates {
  public:
    // `totals`: of all sessions of this sampler.
    SequenceStates(std::uint32_t vocab, std::uint32_t max_length, std::uint32_t sequences,
                   std::uint32_t threads, proto::StateTotals& totals);
    ~SequenceStates();
    SequenceStates(const SequenceStates&) = delete;
    SequenceStates& operator=(const SequenceStates&) = delete;

    struct Which {
        std::uint32_t slot;
        std::uint32_t admission;
        std::uint32_t revision;
        // Of the log, by that revision; none: a later one has come.
        std::optional<std::uint32_t> kept = std::nullopt;
    };
    // The state of the sequence that was admitted to this slot with this number; begun anew when that is
    // another, or has other parameters, breakers or stop strings (proto/stop_words.h). When its log has the
    // next revision, cut to what that kept; another one: doubted.
    sampler::SequenceState& of(std::size_t thread, const Which& which, const proto::SamplingParams& params,
                               sampler::TokenLists dry_breakers, std::span<const std::int32_t> stop_words);
    // The search in the text of a sequence that of() was asked for. Null: its stop strings are none.
    StopSearch* stops_of(std::size_t thread, std::uint32_t slot, const text::TokenTable* tokens,
                         std::span<const std::int32_t> prompt);
    // After what may have made of()'s state grow. `in_parts`: more of its log is to be followed.
    void account(std::size_t thread, std::uint32_t slot, bool in_parts);

    // Whether of() would not begin anew: what the log has gained since costs little to follow.
    bool knows(std::size_t thread, std::uint32_t slot, std::uint32_t admission) const {
        if (slot >= sequences_) return false;
        const auto& tracked = tracked_[thread * sequences_ + slot];
        return tracked != nullptr && tracked->admission == admission;
    }
    bool knows_part(std::size_t thread, std::uint32_t slot, std::uint32_t admission) const {
        return knows(thread, slot, admission) && tracked_[thread * sequences_ + slot]->in_parts;
    }

    // How many tokens of its log have been followed; 0: none is known.
    std::size_t followed(std::size_t thread, std::uint32_t slot, std::uint32_t admission) const {
        return knows(thread, slot, admission) ? tracked_[thread * sequences_ + slot]->followed() : 0;
    }

    // The number of the sampler's look, of all its sessions: by it states are used sooner or later.
    void note_look(std::uint64_t look) { look_ = look; }
    // Frees some of the states whose sequence has finished, or which another lane has derived since; not one
    // that takes a long log over from that lane, in parts. A few slots a call: a look must not take long.
    // `first_lane` is that of thread 0.
    void sweep(const shm::Segment& segment, std::uint32_t first_lane);

  private:
    friend void drop_least_recent(std::span<SequenceStates* const> all, std::uint64_t limit);

    struct Tracked {
        Tracked(std::uint32_t vocab, std::uint32_t max_length) : state(vocab, max_length) {}
        void come_to(const Which& which);
        std::size_t followed() const;
        std::uint32_t admission = 0;
        std::uint32_t revision = 0;
        std::uint64_t used = 0;   // at this look
        std::uint64_t bytes = 0;  // as they are in the totals
        bool in_parts = false;    // while a long log is followed so
        proto::SamplingParams params;
        std::vector<std::int32_t> breakers;
        std::vector<std::int32_t> stop_words;
        sampler::SequenceState state;
        std::unique_ptr<StopSearch> stops;  // where of()'s caller has asked for it
        std::size_t prompt_length = 0;      // of `stops`
    };

    void account(Tracked& tracked);
    void free(std::size_t index);
    bool outlived(const shm::Segment& segment, std::size_t index, std::uint32_t first_lane) const;

    std::uint32_t vocab_;
    std::uint32_t max_length_;
    std::uint32_t sequences_;
    proto::StateTotals* totals_;
    std::uint64_t look_ = 0;
    std::size_t swept_ = 0;
    std::vector<std::unique_ptr<Tracked>> tracked_;  // [thread][slot]
};

// Drops what was used least recently, of whichever session, where all together take more than `limit` bytes;
// then an eighth more than it must, so that it is seldom called for.
void drop_least_recent(std::span<SequenceStates* const> all, std::uint64_t limit);

}  // namespace croupier::daemon
