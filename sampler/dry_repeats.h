// DRY's repeats: the tokens that would go on with something the sequence has said before.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/sampling.h"
#include "sampler/dry_automaton.h"
#include "sampler/request.h"

namespace croupier::sampler {

struct Repeat {
    std::uint32_t token;
    // Of the repeat that it would extend; cut where the penalty no longer grows with it.
    std::uint32_t length;
};

// Follows a sequence token by token. `tokens` is always the whole sequence, oldest first.
class DryRepeats {
  public:
    DryRepeats(std::uint32_t vocab, std::uint32_t max_length);

    // A new, empty sequence. The only call that allocates.
    void begin(const proto::SamplingParams& params, TokenLists breakers);

    void clear();                                          // back to no tokens
    void appended(std::span<const std::uint32_t> tokens);  // the last of them is new
    void remove_last();

    std::span<const Repeat> repeats(std::span<const std::uint32_t> tokens);

  private:
    enum class Mode : std::uint8_t { off, automaton, window };

    // The breaker that began last; of those that began there, the longest. `end` is 0 while there is none.
    struct NewestBreaker {
        std::uint32_t begin;
        std::uint32_t end;
    };
    struct Breaker {
        std::uint32_t last;  // its last token
        std::uint32_t size;
        std::uint32_t offset;  // of its tokens in breaker_tokens_
    };

    void take_breakers(TokenLists lists);
    void reserve(std::uint32_t window);  // 0: the whole sequence
    NewestBreaker newest_breaker(std::span<const std::uint32_t> tokens) const;
    void find_in_window(std::span<const std::uint32_t> window, std::uint32_t bound);
    void found(std::uint32_t token, std::uint32_t length);
    void start_query();

    const std::uint32_t vocab_;
    const std::uint32_t max_length_;
    Mode mode_ = Mode::off;
    std::uint32_t allowed_length_ = 0;
    std::uint32_t longest_ = 0;
    std::uint32_t window_ = 0;
    std::uint32_t first_stamp_ = 1;
    std::uint32_t found_count_ = 0;
    std::uint32_t window_capacity_ = 0;
    std::vector<Breaker> breakers_;  // ascending by their last token
    std::vector<std::uint32_t> breaker_tokens_;
    std::unique_ptr<std::uint32_t[]> marks_;  // by token: breaker flags, and first_stamp_ + place in found_
    std::unique_ptr<Repeat[]> found_;
    std::unique_ptr<NewestBreaker[]> newest_;   // by length of the sequence
    std::unique_ptr<std::uint32_t[]> matches_;  // the window's Z function
    DryAutomaton automaton_;
};

}  // namespace croupier::sampler
