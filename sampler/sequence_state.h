// What penalties and DRY ask of a sequence's history, kept up with its token log: a decision pays for the
// tokens that were appended since the last one, not for the vocabulary or the history's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "proto/sampling.h"
#include "sampler/dry_repeats.h"
#include "sampler/request.h"

namespace croupier::sampler {

class SequenceState {
  public:
    using Repeat = sampler::Repeat;

    SequenceState(std::uint32_t vocab, std::uint32_t max_length);

    // A new sequence, in time of the last one's length. Takes what memory the parameters need and the state
    // does not have yet; follow() and repeats() then allocate nothing.
    void begin(const proto::SamplingParams& params, TokenLists dry_breakers);

    // Appends what the log has more and rolls back what it has no longer. Every id is read once: the log may
    // change meanwhile. False: an id outside the vocabulary, or a log longer than max_length; the state then
    // stands at the tokens before it.
    bool follow(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output);

    // Rolls back to this many tokens of prompt and output. What was followed but did not stay in the log
    // (rejected candidates) must be cut before anyone else appends: follow() compares only the last tokens.
    void truncate(std::size_t length);

    // Whether repetition_penalty applies: the token stands in prompt or output, or in penalty_last_n's
    // window.
    // Asked only where begin() was given a penalty.
    bool seen(std::uint32_t token) const { return standing_[token] != 0; }
    // What frequency_penalty and presence_penalty count: in the output, or in penalty_last_n's window.
    std::uint32_t occurrences(std::uint32_t token) const {
        const std::uint32_t counted = standing_[token] & kMany;
        return counted < kMany ? counted : many_[places_[token]];
    }
    void prefetch(std::uint32_t token) const { __builtin_prefetch(&standing_[token]); }
    // All tokens that are seen(), each once, in no particular order.
    std::span<const std::uint32_t> distinct() const { return {distinct_.get(), distinct_count_}; }

    // Every token that DRY penalises, once, in no particular order; valid until the next call.
    std::span<const Repeat> repeats() { return dry_.repeats({tokens_.get(), length_}); }

    std::size_t length() const { return length_; }

    // How many blocks of its row the last search had to look into, because penalties push the best down:
    // where the next one begins. It changes how a search goes, never what it finds.
    std::uint32_t search_width() const { return search_width_; }
    void note_search_width(std::uint32_t blocks) { search_width_ = blocks; }

  private:
    static constexpr std::uint16_t kInPrompt = 0x8000;
    static constexpr std::uint16_t kMany = 0x7FFF;  // or more: the count is elsewhere

    void clear();
    std::size_t agreeing(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) const;
    void append(std::uint32_t token);
    void count_last();
    void remove_last();
    void uncount_last();
    void add_occurrence(std::uint32_t token);
    void add_distinct(std::uint32_t token);
    void leave(std::uint32_t token);
    bool windowed() const { return window_ >= 0; }
    std::uint32_t window_size() const { return static_cast<std::uint32_t>(window_); }

    const std::uint32_t vocab_;
    const std::uint32_t max_length_;
    bool counts_ = false;
    std::int32_t window_ = -1;
    std::uint32_t prompt_length_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t distinct_count_ = 0;
    std::uint32_t search_width_ = 0;
    // By token: its count up to kMany, and kInPrompt. Short, because a decision asks for tokens from all over
    // the vocabulary: half the cache lines and pages.
    std::unique_ptr<std::uint16_t[]> standing_;
    std::unique_ptr<std::uint32_t[]> distinct_;
    std::unique_ptr<std::uint32_t[]> places_;  // by token: its place in distinct_
    std::unique_ptr<std::uint32_t[]> many_;    // by place: its count, from kMany on
    std::unique_ptr<std::uint32_t[]> tokens_;  // own copy: the log behind it may be overwritten
    DryRepeats dry_;
};

}  // namespace croupier::sampler
