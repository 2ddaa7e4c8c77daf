#include "sampler/sequence_state.h"

#include <algorithm>

namespace croupier::sampler {
namespace {

// How many of the last tokens followed are compared with the log: more than a window of candidates holds.
constexpr std::size_t kCompared = 32;

// Another process may write the log at this moment: what is checked must be what is used.
std::int32_t read_once(const std::int32_t& logged) {
    return __atomic_load_n(&logged, __ATOMIC_RELAXED);
}

std::int32_t token_at(std::size_t place, std::span<const std::int32_t> prompt,
                      std::span<const std::int32_t> output) {
    return read_once(place < prompt.size() ? prompt[place] : output[place - prompt.size()]);
}

}  // namespace

SequenceState::SequenceState(std::uint32_t vocab, std::uint32_t max_length)
    : vocab_(vocab), max_length_(max_length), dry_(vocab, max_length) {}

void SequenceState::begin(const proto::SamplingParams& params, TokenLists dry_breakers) {
    if (tokens_ == nullptr) tokens_ = std::make_unique_for_overwrite<std::uint32_t[]>(max_length_);
    clear();
    counts_ =
        params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
    if (counts_ && standing_ == nullptr) {
        standing_ = std::make_unique<std::uint16_t[]>(vocab_);
        distinct_ = std::make_unique_for_overwrite<std::uint32_t[]>(vocab_);
        places_ = std::make_unique_for_overwrite<std::uint32_t[]>(vocab_);
        // Of a token only once it occurs that often: its zeroes would cost a page fault each 1,024 tokens.
        many_ = std::make_unique_for_overwrite<std::uint32_t[]>(vocab_);
    }
    window_ = params.penalty_last_n;
    prompt_length_ = 0;
    search_width_ = 0;
    dry_.begin(params, dry_breakers);
}

void SequenceState::clear() {
    for (const std::uint32_t token : distinct()) standing_[token] = 0;
    distinct_count_ = 0;
    length_ = 0;
    dry_.clear();
}

bool SequenceState::follow(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) {
    const std::size_t total = prompt.size() + output.size();
    if (tokens_ == nullptr || total > max_length_) return false;
    if (prompt.size() != prompt_length_) {
        clear();
        prompt_length_ = static_cast<std::uint32_t>(prompt.size());
    }
    truncate(agreeing(prompt, output));
    while (length_ < total) {
        const std::int32_t logged = token_at(length_, prompt, output);
        if (logged < 0 || static_cast<std::uint32_t>(logged) >= vocab_) return false;
        append(static_cast<std::uint32_t>(logged));
    }
    return true;
}

// How many of the tokens followed stand in the log still. What lies before the compared ones is taken to have
// stayed as it was if the first of those has.
std::size_t SequenceState::agreeing(std::span<const std::int32_t> prompt,
                                    std::span<const std::int32_t> output) const {
    const std::size_t common = std::min<std::size_t>(length_, prompt.size() + output.size());
    const std::size_t first = common - std::min(common, kCompared);
    for (std::size_t place = first; place < common; ++place) {
        if (static_cast<std::uint32_t>(token_at(place, prompt, output)) != tokens_[place]) {
            return place == first ? 0 : place;
        }
    }
    return common;
}

void SequenceState::truncate(std::size_t length) {
    if (length >= prompt_length_) {
        while (length_ > length) remove_last();
    } else if (length < length_) {
        // Nothing tells how often a token stands in the prompt.
        clear();
        while (length_ < length) append(tokens_[length_]);
    }
}

void SequenceState::append(std::uint32_t token) {
    tokens_[length_] = token;
    if (counts_) count_last();
    ++length_;
    dry_.appended({tokens_.get(), length_});
}

void SequenceState::count_last() {
    const std::uint32_t token = tokens_[length_];
    add_distinct(token);
    if (windowed() || length_ >= prompt_length_) {
        add_occurrence(token);
    } else {
        standing_[token] |= kInPrompt;
    }
    if (windowed() && length_ + 1 > window_size()) leave(tokens_[length_ - window_size()]);
}

void SequenceState::remove_last() {
    if (counts_) uncount_last();
    --length_;
    dry_.remove_last();
}

void SequenceState::uncount_last() {
    if (windowed() && length_ > window_size()) {
        const std::uint32_t returning = tokens_[length_ - 1 - window_size()];
        add_distinct(returning);
        add_occurrence(returning);
    }
    leave(tokens_[length_ - 1]);
}

void SequenceState::add_occurrence(std::uint32_t token) {
    std::uint16_t& standing = standing_[token];
    if ((standing & kMany) == kMany) {
        ++many_[places_[token]];
        return;
    }
    ++standing;
    if ((standing & kMany) == kMany) many_[places_[token]] = kMany;
}

void SequenceState::add_distinct(std::uint32_t token) {
    if (standing_[token] != 0) return;
    places_[token] = distinct_count_;
    distinct_[distinct_count_++] = token;
}

void SequenceState::leave(std::uint32_t token) {
    const std::uint32_t place = places_[token];
    if ((standing_[token] & kMany) == kMany && --many_[place] >= kMany) return;
    if (--standing_[token] != 0) return;
    const std::uint32_t moved = distinct_[--distinct_count_];
    distinct_[place] = moved;
    many_[place] = many_[distinct_count_];
    places_[moved] = place;
}

}  // namespace croupier::sampler
