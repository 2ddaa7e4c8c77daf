// What penalties and DRY ask of a sequence's history, kept up with its token log: a decision pays for the
// tokens that were appended since the last one, not for the vocabulary or the history's length. Its memory
// grows with the history, by half; while that stays as it is, nothing is allocated. A sequence without
// penalties and DRY has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/sampling.h"
#include "sampler/dry_repeats.h"
#include "sampler/request.h"
#include "sampler/token_counts.h"

namespace croupier::sampler {

class SequenceState {
  public:
    using Repeat = sampler::Repeat;

    SequenceState(std::uint32_t vocab, std::uint32_t max_length);

    // A new sequence, in time of the last one's length, whose memory it keeps.
    void begin(const proto::SamplingParams& params, TokenLists dry_breakers);

    // Appends the tokens that the log has more, and removes those that it has no longer. Every id is read
    // once: the log may change meanwhile. False: an id outside the vocabulary, or a log longer than
    // max_length; the state then stands at the tokens before it. `most`: how many tokens to append; length()
    // says whether these were all.
    static constexpr std::size_t kAll = ~std::size_t{0};
    bool follow(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output,
                std::size_t most = kAll);
    // A log that only grows is read where it has grown. If it was cut back, or its tokens have changed, one
    // of these must say so before it is followed again. The log has kept at least so many of the tokens
    // followed.
    void keep(std::size_t length);
    // It is not known how many: the next follow() compares all.
    void doubt() { doubted_ = true; }
    // Rolls back to this many tokens of prompt and output; less than the prompt takes as long as all of it.
    void truncate(std::size_t length);

    // Both of a token, in one look: a decision asks for tokens from all over the vocabulary.
    struct Standing {
        bool seen;
        std::uint32_t occurrences;
    };
    static Standing standing_of(std::uint32_t counted) {
        return {counted != 0, counted & TokenCounts::kCount};
    }
    Standing standing(std::uint32_t token) const { return standing_of(counted_.standing(token)); }
    // Whether repetition_penalty applies: the token stands in prompt or output, or in penalty_last_n's
    // window.
    // Asked only where begin() was given a penalty.
    bool seen(std::uint32_t token) const { return standing(token).seen; }
    // What frequency_penalty and presence_penalty count: in the output, or in penalty_last_n's window.
    std::uint32_t occurrences(std::uint32_t token) const { return standing(token).occurrences; }
    void prefetch(std::uint32_t token) const { counted_.prefetch(token); }
    // All tokens that are seen(), each once, in no particular order.
    std::span<const TokenCounts::Counted> distinct() const { return counted_.distinct(); }

    // Every token that DRY penalises, once, in no particular order; valid until the next call.
    std::span<const Repeat> repeats() { return dry_.repeats(tokens_); }
    // The length of this token's repeat; 0 if it extends none.
    std::uint32_t repeat_length(std::uint32_t token) const { return dry_.length_of(token); }

    // Whether it holds anything that another sampler would have to derive from the log.
    bool derives() const { return counts_ || dry_.on(); }
    // All that it has allocated.
    std::size_t bytes() const;

    std::size_t length() const { return length_; }

    // How many blocks of its row the last search had to look into, because penalties push the best down:
    // where the next one begins. It changes how a search goes, never what it finds.
    std::uint32_t search_width() const { return search_width_; }
    void note_search_width(std::uint32_t blocks) { search_width_ = blocks; }

  private:
    void clear();
    std::size_t agreeing(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output) const;
    void append(std::uint32_t token);
    void count(std::uint32_t token);
    void remove_last();
    void uncount_last();
    bool windowed() const { return window_ >= 0; }
    std::uint32_t window_size() const { return static_cast<std::uint32_t>(window_); }

    const std::uint32_t vocab_;
    const std::uint32_t max_length_;
    bool begun_ = false;
    bool counts_ = false;
    bool doubted_ = false;
    std::int32_t window_ = -1;
    std::uint32_t prompt_length_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t search_width_ = 0;
    TokenCounts counted_;
    std::vector<std::uint32_t> tokens_;  // own copy: the log behind it may be overwritten
    DryRepeats dry_;
};

}  // namespace croupier::sampler
