// The suffix automaton of a growing sequence: which tokens have followed its suffixes before, without looking
// at the sequence again. Appending is O(1) amortised, and every append can be taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace croupier::sampler {

class DryAutomaton {
  public:
    // Takes the memory for sequences of this length once; touches none of it.
    void reserve(std::uint32_t max_length);

    // An empty sequence, whose continuations() are asked of suffixes of up to `longest` tokens.
    void begin(std::uint32_t longest);

    void append(std::uint32_t token);
    void remove_last();

    // Calls visit(token, length) for the tokens that have followed a suffix of `shortest` to `bound` tokens
    // before, with that suffix's length; a token comes more than once, with its longest suffix first.
    // 1 <= shortest <= bound <= longest.
    template <typename Visit>
    void continuations(std::uint32_t shortest, std::uint32_t bound, Visit visit) const {
        if (length_ == 0) return;
        std::uint32_t state = suffix_;
        while (length_of(links_to(state)) >= bound) state = links_to(state);
        for (; length_of(state) >= shortest; state = links_to(state)) {
            const std::uint32_t length = length_of(state) < bound ? length_of(state) : bound;
            for (std::uint32_t at = states_[state].first_edge; at != kNone; at = edges_[at].next) {
                visit(edges_[at].token, length);
            }
        }
    }

  private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    static constexpr std::uint32_t kRoot = 0;

    struct State {
        std::uint32_t length;  // of its longest string
        std::uint32_t link;
        std::uint32_t first_edge;
    };
    struct Edge {
        std::uint32_t from;
        std::uint32_t token;
        std::uint32_t to;
        std::uint32_t next;  // of the same state
    };
    // What stood before an append, and what the append split.
    struct Undo {
        std::uint32_t states;
        std::uint32_t edges;
        std::uint32_t suffix;
        std::uint32_t split;       // kNone: nothing
        std::uint32_t redirected;  // the first state whose edge now leads to the split's clone
    };

    std::uint32_t length_of(std::uint32_t state) const { return states_[state].length; }
    std::uint32_t links_to(std::uint32_t state) const { return states_[state].link; }
    std::uint32_t last_state() const;
    std::uint32_t add_state(std::uint32_t length, std::uint32_t link);
    std::size_t slot_of(std::uint32_t from, std::uint32_t token) const;
    std::uint32_t edge_of(std::uint32_t from, std::uint32_t token) const;
    void add_edge(std::size_t slot, std::uint32_t from, std::uint32_t token, std::uint32_t to);
    void use_slots(std::uint32_t bits);
    std::uint32_t split(std::uint32_t state, std::uint32_t length);
    void redirect(std::uint32_t first, std::uint32_t token, std::uint32_t from, std::uint32_t to);
    void follow_suffix(std::uint32_t newest, std::uint32_t token);

    std::uint32_t capacity_ = 0;
    std::uint32_t longest_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t state_count_ = 0;
    std::uint32_t edge_count_ = 0;
    std::uint32_t suffix_ = kRoot;  // the state of the sequence's last `longest_` tokens
    std::uint32_t slot_bits_ = 0;   // the part of slots_ in use: 1 << slot_bits_
    std::uint32_t max_slot_bits_ = 0;
    std::unique_ptr<State[]> states_;
    std::unique_ptr<Edge[]> edges_;
    std::unique_ptr<std::uint32_t[]> slots_;  // open addressing: 1 + an edge's number, or 0
    std::unique_ptr<Undo[]> undo_;
};

}  // namespace croupier::sampler
