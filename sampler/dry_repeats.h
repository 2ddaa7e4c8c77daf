// DRY's repeats: the tokens that would continue something the sequence has said before.
#pragma once

#include <cstddef>
#include <cstdint>
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

    // A new, empty sequence.
    void begin(const proto::SamplingParams& params, TokenLists breakers);
    bool on() const { return mode_ != Mode::off; }

    void clear();                                          // back to no tokens
    void appended(std::span<const std::uint32_t> tokens);  // the last of them is new
    void remove_last();

    // Takes memory only where it finds more than it ever has.
    std::span<const Repeat> repeats(std::span<const std::uint32_t> tokens);
    // Of the repeats just found, this token's length; 0: it is none of them.
    std::uint32_t length_of(std::uint32_t token) const;

    std::size_t bytes() const;

  private:
    enum class Mode : std::uint8_t { off, automaton, window };

    // Of the breakers that the sequence holds, the one that began last; of those that began there, the
    // longest. `end` is 0 while there is none.
    struct NewestBreaker {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        std::uint32_t since = 0;  // this length of the sequence
    };
    struct Breaker {
        std::uint32_t last;  // its last token
        std::uint32_t size;
        std::uint32_t offset;  // of its tokens in breaker_tokens_
    };

    void take_breakers(TokenLists lists);
    void note_breaker(std::span<const std::uint32_t> tokens);
    bool breaks_alone(std::uint32_t token) const;
    NewestBreaker newest_breaker() const { return newest_.empty() ? NewestBreaker{} : newest_.back(); }
    void find_in_window(std::span<const std::uint32_t> window, std::uint32_t bound);
    void found(std::uint32_t token, std::uint32_t length);
    void start_query();
    std::size_t mark_of(std::uint32_t token) const;
    void use_marks(std::size_t count);

    const std::uint32_t vocab_;
    const std::uint32_t max_length_;
    Mode mode_ = Mode::off;
    std::uint32_t allowed_length_ = 0;
    std::uint32_t longest_ = 0;
    std::uint32_t window_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t first_stamp_ = 1;
    std::vector<Breaker> breakers_;  // ascending by their last token
    std::vector<std::uint32_t> breaker_tokens_;
    std::vector<std::uint32_t> lone_breakers_;  // tokens that are breakers by themselves, ascending
    std::vector<NewestBreaker> newest_;         // each since another length; the last one holds
    std::vector<Repeat> found_;
    // Open addressing by token, at most half in use: first_stamp_ + place in found_. Those of earlier queries
    // are below first_stamp_, and so empty.
    std::vector<std::uint32_t> marks_;
    std::vector<std::uint32_t> matches_;  // the window's Z function
    DryAutomaton automaton_;
};

}  // namespace croupier::sampler
