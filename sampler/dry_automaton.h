// The suffix automaton of a growing sequence: which tokens have followed its suffixes before, without looking
// at the sequence again. Appending is O(1) amortised, and every append can be taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sampler/dry_edges.h"

namespace croupier::sampler {

class DryAutomaton {
  public:
    // An empty sequence, whose continuations() are asked of suffixes of up to `longest` tokens. Keeps its
    // memory.
    void begin(std::uint32_t longest);

    void append(std::uint32_t token);
    void remove_last();

    // Calls visit(token, length) for the tokens that have followed a suffix of `shortest` to `bound` tokens
    // before, with that suffix's length; a token comes more than once, with its longest suffix first.
    // 1 <= shortest <= bound <= longest.
    template <typename Visit>
    void continuations(std::uint32_t shortest, std::uint32_t bound, Visit visit) const {
        if (length() == 0) return;
        std::uint32_t state = suffix_;
        while (length_of(links_to(state)) >= bound) state = links_to(state);
        while (length_of(state) >= shortest) {
            const State& at = state_of(state);
            // Another cache line, or two: on their way while this state's are visited.
            __builtin_prefetch(&state_of(at.link));
            const std::uint32_t length = length_of(state) < bound ? length_of(state) : bound;
            if (!is_clone(state) && at.value != kNone) visit(at.value, length);
            edges_.for_each(at.edges, [&](std::uint32_t token) { visit(token, length); });
            state = at.link;
        }
    }

    std::size_t bytes() const;

  private:
    static constexpr std::uint32_t kNone = DryEdges::kNone;
    static constexpr std::uint32_t kRoot = 0;
    static constexpr std::uint32_t kClone = 1U << 31U;  // of a state's number

    // Each prefix of the sequence has a state, whose number is the prefix's length, and whose edge to the
    // next prefix needs no memory but the token: most states have no other edge. States that appends split
    // off are the clones.
    struct State {
        std::uint32_t value;  // of a prefix: the token after it, or kNone; of a clone: its length
        std::uint32_t link;
        DryEdges::Block edges;  // all others
    };
    static_assert(sizeof(State) == 16);  // four a cache line, none across two

    // What stood before an append.
    struct Undo {
        std::uint32_t suffix;
        // The first state whose edge now leads to the clone that the append made; kNone: it made none.
        std::uint32_t redirected;
    };

    static bool is_clone(std::uint32_t state) { return (state & kClone) != 0; }
    std::uint32_t length() const { return static_cast<std::uint32_t>(undo_.size()); }
    const State& state_of(std::uint32_t state) const {
        return is_clone(state) ? clones_[state & ~kClone] : prefixes_[state];
    }
    State& state_of(std::uint32_t state) {
        return is_clone(state) ? clones_[state & ~kClone] : prefixes_[state];
    }
    // Of its longest string.
    std::uint32_t length_of(std::uint32_t state) const {
        return is_clone(state) ? clones_[state & ~kClone].value : state;
    }
    std::uint32_t links_to(std::uint32_t state) const { return state_of(state).link; }
    std::uint32_t go(std::uint32_t state, std::uint32_t token) const;
    std::uint32_t split(std::uint32_t state, std::uint32_t length);
    void unsplit(std::uint32_t redirected, std::uint32_t token);
    void redirect(std::uint32_t first, std::uint32_t token, std::uint32_t from, std::uint32_t to);
    void follow_suffix(std::uint32_t newest, std::uint32_t token);

    std::uint32_t longest_ = 0;
    std::uint32_t suffix_ = kRoot;  // the state of the sequence's last `longest_` tokens
    std::vector<State> prefixes_;   // by length
    std::vector<State> clones_;
    std::vector<std::uint32_t> originals_;  // by clone: the state that it was split from
    std::vector<Undo> undo_;                // by append
    DryEdges edges_;
};

}  // namespace croupier::sampler
