#include "daemon/worker/sequence_states.h"

#include <algorithm>
#include <cstring>

#include "proto/stop_words.h"
#include "text/text_error.h"

namespace croupier::daemon {
namespace {

// A sampler that waits looks several times a microsecond.
constexpr std::size_t kSweptALook = 8;
// Looks since the last use within which a state that follows its log in parts is spared.
constexpr std::uint64_t kSparedLooks = 1U << 16U;

}  // namespace

std::uint32_t admission_in(const shm::Segment& segment, std::uint32_t slot) {
    if (slot >= segment.geometry().max_sequences) return 0;
    return segment.sequence(slot).admission.load(std::memory_order_acquire);
}

SequenceStates::SequenceStates(std::uint32_t vocab, std::uint32_t max_length, std::uint32_t sequences,
                               std::uint32_t threads, proto::StateTotals& totals)
    : vocab_(vocab),
      max_length_(max_length),
      sequences_(sequences),
      totals_(&totals),
      tracked_(std::size_t{sequences} * threads) {}

SequenceStates::~SequenceStates() {
    for (std::size_t index = 0; index < tracked_.size(); ++index) free(index);
}

void SequenceStates::Tracked::come_to(const Which& which) {
    if (revision == which.revision) return;
    if (which.kept && revision + 1 == which.revision) {
        state.keep(*which.kept);
        if (stops != nullptr) stops->keep(*which.kept - std::min<std::size_t>(*which.kept, prompt_length));
    } else {
        state.doubt();
        // It has no tokens of its own to compare.
        if (stops != nullptr) stops->keep(0);
    }
    revision = which.revision;
}

std::size_t SequenceStates::Tracked::followed() const {
    return stops == nullptr ? state.length() : std::min(state.length(), prompt_length + stops->tokens());
}

sampler::SequenceState& SequenceStates::of(std::size_t thread, const Which& which,
                                           const proto::SamplingParams& params,
                                           sampler::TokenLists dry_breakers,
                                           std::span<const std::int32_t> stop_words) {
    auto& held = tracked_[thread * sequences_ + which.slot];
    if (held == nullptr) {
        held = std::make_unique<Tracked>(vocab_, max_length_);
        totals_->states.fetch_add(1, std::memory_order_relaxed);
    } else {
        // Bit for bit, which a struct without padding allows: another NaN or zero is another request.
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
        const bool same_params = std::memcmp(&held->params, &params, sizeof(params)) == 0;
        const bool same_breakers = std::equal(dry_breakers.begin(), dry_breakers.end(),
                                              held->breakers.begin(), held->breakers.end());
        const bool same_stops = std::equal(stop_words.begin(), stop_words.end(), held->stop_words.begin(),
                                           held->stop_words.end());
        if (held->admission == which.admission && same_params && same_breakers && same_stops) {
            held->used = look_;
            held->come_to(which);
            return held->state;
        }
    }
    held->state.begin(params, dry_breakers);
    held->admission = which.admission;
    held->revision = which.revision;
    held->in_parts = false;
    held->used = look_;
    held->params = params;
    held->breakers.assign(dry_breakers.begin(), dry_breakers.end());
    held->stop_words.assign(stop_words.begin(), stop_words.end());
    held->stops.reset();
    return held->state;
}

StopSearch* SequenceStates::stops_of(std::size_t thread, std::uint32_t slot, const text::TokenTable* tokens,
                                     std::span<const std::int32_t> prompt) {
    Tracked& tracked = *tracked_[thread * sequences_ + slot];
    if (tracked.stops != nullptr) return tracked.stops.get();
    const auto strings = proto::read_stop_words(tracked.stop_words);
    if (tokens == nullptr || !strings) return nullptr;
    const bool keeps_special = (tracked.params.flags & proto::kKeepSpecial) != 0;
    try {
        // Where the text ends does not depend on what is shown of it.
        tracked.stops = std::make_unique<StopSearch>(
            *tokens,
            text::TextRules{*strings, tracked.params.min_tokens, false, !keeps_special,
                            (tracked.params.flags & proto::kStopAtJson) != 0},
            prompt);
    } catch (const text::TextError&) {
        return nullptr;
    }
    tracked.prompt_length = prompt.size();
    return tracked.stops.get();
}

void SequenceStates::account(std::size_t thread, std::uint32_t slot, bool in_parts) {
    Tracked& tracked = *tracked_[thread * sequences_ + slot];
    tracked.in_parts = in_parts;
    account(tracked);
}

void SequenceStates::account(Tracked& tracked) {
    const std::uint64_t bytes =
        sizeof(tracked) - sizeof(tracked.state) + tracked.state.bytes() +
        (tracked.breakers.capacity() + tracked.stop_words.capacity()) * sizeof(std::int32_t) +
        (tracked.stops == nullptr ? 0 : tracked.stops->bytes());
    // Wraps where it has shrunk, and the sum back with it.
    if (bytes != tracked.bytes) {
        totals_->bytes.fetch_add(bytes - tracked.bytes, std::memory_order_relaxed);
        tracked.bytes = bytes;
    }
}

void SequenceStates::free(std::size_t index) {
    if (tracked_[index] == nullptr) return;
    totals_->bytes.fetch_sub(tracked_[index]->bytes, std::memory_order_relaxed);
    totals_->states.fetch_sub(1, std::memory_order_relaxed);
    tracked_[index].reset();
}

bool SequenceStates::outlived(const shm::Segment& segment, std::size_t index,
                              std::uint32_t first_lane) const {
    const auto& entry = segment.sequence(static_cast<std::uint32_t>(index % sequences_));
    if (entry.state.load(std::memory_order_acquire) != proto::SequenceState::live) return true;
    if (entry.admission.load(std::memory_order_acquire) != tracked_[index]->admission) return true;
    // One lane takes a long log over from another, which is noted when it has all of it.
    if (tracked_[index]->in_parts && look_ - tracked_[index]->used < kSparedLooks) return false;
    const std::uint32_t owner = entry.owner.load(std::memory_order_relaxed);
    const auto lane = first_lane + static_cast<std::uint32_t>(index / sequences_);
    return owner != 0 && owner != lane + 1;
}

void SequenceStates::sweep(const shm::Segment& segment, std::uint32_t first_lane) {
    for (std::size_t i = 0; i < std::min(kSweptALook, tracked_.size()); ++i) {
        if (++swept_ >= tracked_.size()) swept_ = 0;
        if (tracked_[swept_] != nullptr && outlived(segment, swept_, first_lane)) free(swept_);
    }
}

void drop_least_recent(std::span<SequenceStates* const> all, std::uint64_t limit) {
    struct Held {
        std::uint64_t used;
        SequenceStates* states;
        std::size_t index;
    };
    std::vector<Held> held;
    std::uint64_t bytes = 0;
    for (SequenceStates* states : all) {
        for (std::size_t index = 0; index < states->tracked_.size(); ++index) {
            if (states->tracked_[index] == nullptr) continue;
            held.push_back({states->tracked_[index]->used, states, index});
            bytes += states->tracked_[index]->bytes;
        }
    }
    if (bytes <= limit) return;
    std::sort(held.begin(), held.end(),
              [](const Held& left, const Held& right) { return left.used < right.used; });
    for (const Held& each : held) {
        if (bytes <= limit - limit / 8) return;
        bytes -= each.states->tracked_[each.index]->bytes;
        each.states->free(each.index);
        each.states->totals_->dropped.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace croupier::daemon
