#include "sampler/sequence_state.h"

#include <algorithm>

#include "sampler/growing.h"

namespace croupier::sampler {
namespace {

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
    begun_ = true;
    counts_ =
        params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
    window_ = params.penalty_last_n;
    doubted_ = false;
    prompt_length_ = 0;
    search_width_ = 0;
    dry_.begin(params, dry_breakers);
    if (!counts_) counted_ = {};
    clear();
}

void SequenceState::clear() {
    if (counts_) counted_.clear();
    tokens_.clear();
    length_ = 0;
    dry_.clear();
}

bool SequenceState::follow(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output,
                           std::size_t most) {
    const std::size_t total = prompt.size() + output.size();
    if (!begun_ || total > max_length_) return false;
    if (prompt.size() != prompt_length_) {
        clear();
        prompt_length_ = static_cast<std::uint32_t>(prompt.size());
    }
    truncate(agreeing(prompt, output));
    doubted_ = false;
    const std::size_t end = length_ + std::min(most, total - length_);
    while (length_ < end) {
        const std::int32_t logged = token_at(length_, prompt, output);
        if (logged < 0 || static_cast<std::uint32_t>(logged) >= vocab_) return false;
        append(static_cast<std::uint32_t>(logged));
    }
    return true;
}

// How many of the tokens followed stand in the log still.
std::size_t SequenceState::agreeing(std::span<const std::int32_t> prompt,
                                    std::span<const std::int32_t> output) const {
    const std::size_t common = std::min<std::size_t>(length_, prompt.size() + output.size());
    if (!derives() || !doubted_) return common;
    for (std::size_t place = 0; place < common; ++place) {
        if (static_cast<std::uint32_t>(token_at(place, prompt, output)) != tokens_[place]) return place;
    }
    return common;
}

void SequenceState::keep(std::size_t length) {
    if (length >= prompt_length_) {
        truncate(length);
    } else {
        doubt();
    }
}

void SequenceState::truncate(std::size_t length) {
    if (!derives()) {
        length_ = static_cast<std::uint32_t>(std::min<std::size_t>(length_, length));
    } else if (length >= prompt_length_) {
        while (length_ > length) remove_last();
    } else if (length < length_) {
        // How often a token stands in the prompt is not recorded.
        std::vector<std::uint32_t> kept(tokens_.begin(),
                                        tokens_.begin() + static_cast<std::ptrdiff_t>(length));
        clear();
        for (const std::uint32_t token : kept) append(token);
    }
}

void SequenceState::append(std::uint32_t token) {
    if (derives()) {
        push_growing(tokens_, token);
        if (counts_) count(token);
        dry_.appended(tokens_);
    }
    ++length_;
}

void SequenceState::count(std::uint32_t token) {
    if (windowed() || length_ >= prompt_length_) {
        counted_.add(token);
    } else {
        counted_.add_in_prompt(token);
    }
    if (windowed() && length_ + 1 > window_size()) counted_.leave(tokens_[length_ - window_size()]);
}

void SequenceState::remove_last() {
    if (counts_) uncount_last();
    --length_;
    tokens_.pop_back();
    dry_.remove_last();
}

void SequenceState::uncount_last() {
    if (windowed() && length_ > window_size()) counted_.add(tokens_[length_ - 1 - window_size()]);
    counted_.leave(tokens_[length_ - 1]);
}

std::size_t SequenceState::bytes() const {
    return sizeof(*this) + counted_.bytes() + bytes_of(tokens_) + dry_.bytes();
}

}  // namespace croupier::sampler
