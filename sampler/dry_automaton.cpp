#include "sampler/dry_automaton.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kFirstSlotBits = 10;
constexpr std::uint32_t kSlotBitsGrowth = 2;

// No automaton has more: 2n - 1 states and 3n - 4 edges, from three tokens on.
std::size_t most_states(std::uint32_t tokens) {
    return 2 * std::size_t{tokens} + 1;
}
std::size_t most_edges(std::uint32_t tokens) {
    return 3 * std::size_t{tokens} + 1;
}

// Multiplicative hashing: the product's high bits depend on all bits of both.
std::size_t hash(std::uint32_t from, std::uint32_t token, std::uint32_t bits) {
    const std::uint64_t key = (std::uint64_t{from} << 32U) | token;
    return static_cast<std::size_t>(((key ^ (key >> 29U)) * 0x9E3779B97F4A7C15U) >> (64U - bits));
}

}  // namespace

void DryAutomaton::reserve(std::uint32_t max_length) {
    if (undo_ != nullptr && max_length <= capacity_) return;
    capacity_ = max_length;
    max_slot_bits_ = static_cast<std::uint32_t>(std::bit_width(2 * most_edges(max_length)));
    states_ = std::make_unique_for_overwrite<State[]>(most_states(max_length));
    edges_ = std::make_unique_for_overwrite<Edge[]>(most_edges(max_length));
    slots_ = std::make_unique_for_overwrite<std::uint32_t[]>(std::size_t{1} << max_slot_bits_);
    undo_ = std::make_unique_for_overwrite<Undo[]>(max_length);
}

void DryAutomaton::begin(std::uint32_t longest) {
    longest_ = longest;
    length_ = 0;
    state_count_ = 0;
    edge_count_ = 0;
    suffix_ = add_state(0, kNone);
    use_slots(std::min(kFirstSlotBits, max_slot_bits_));
}

std::uint32_t DryAutomaton::last_state() const {
    return length_ == 0 ? kRoot : undo_[length_ - 1].states;
}

std::uint32_t DryAutomaton::add_state(std::uint32_t length, std::uint32_t link) {
    states_[state_count_] = {length, link, kNone};
    return state_count_++;
}

// The table grows with the edges, so that a short sequence stays in the cache; at most half of it is full.
void DryAutomaton::use_slots(std::uint32_t bits) {
    slot_bits_ = bits;
    std::fill_n(slots_.get(), std::size_t{1} << bits, 0U);
    for (std::uint32_t edge = 0; edge < edge_count_; ++edge) {
        slots_[slot_of(edges_[edge].from, edges_[edge].token)] = edge + 1;
    }
}

// Where this edge stands, or an empty slot. Edges leave in the reverse of the order in which they came, so
// that none ever stands behind a slot that was emptied: removal needs no tombstones.
std::size_t DryAutomaton::slot_of(std::uint32_t from, std::uint32_t token) const {
    const std::size_t mask = (std::size_t{1} << slot_bits_) - 1;
    for (std::size_t slot = hash(from, token, slot_bits_);; slot = (slot + 1) & mask) {
        if (slots_[slot] == 0) return slot;
        const Edge& edge = edges_[slots_[slot] - 1];
        if (edge.from == from && edge.token == token) return slot;
    }
}

std::uint32_t DryAutomaton::edge_of(std::uint32_t from, std::uint32_t token) const {
    return slots_[slot_of(from, token)] - 1;
}

void DryAutomaton::add_edge(std::size_t slot, std::uint32_t from, std::uint32_t token, std::uint32_t to) {
    if (2 * (std::size_t{edge_count_} + 1) > std::size_t{1} << slot_bits_) {
        use_slots(std::min(slot_bits_ + kSlotBitsGrowth, max_slot_bits_));
        slot = slot_of(from, token);
    }
    edges_[edge_count_] = {from, token, to, states_[from].first_edge};
    states_[from].first_edge = edge_count_;
    slots_[slot] = ++edge_count_;
}

void DryAutomaton::append(std::uint32_t token) {
    Undo& undo = undo_[length_];
    undo = {state_count_, edge_count_, suffix_, kNone, kNone};
    std::uint32_t state = last_state();
    const std::uint32_t newest = add_state(++length_, kRoot);
    std::uint32_t edge = kNone;
    for (; state != kNone; state = links_to(state)) {
        const std::size_t slot = slot_of(state, token);
        edge = slots_[slot] - 1;
        if (edge != kNone) break;
        add_edge(slot, state, token, newest);
    }
    if (state != kNone) {
        const std::uint32_t target = edges_[edge].to;
        const std::uint32_t length = length_of(state) + 1;
        if (length_of(target) == length) {
            states_[newest].link = target;
        } else {
            undo.split = target;
            undo.redirected = state;
            const std::uint32_t clone = split(target, length);
            redirect(state, token, target, clone);
            states_[newest].link = clone;
        }
    }
    follow_suffix(newest, token);
}

// The clone takes over the state's strings of up to this length: they have just ended at a place where its
// longer ones do not.
std::uint32_t DryAutomaton::split(std::uint32_t state, std::uint32_t length) {
    const std::uint32_t clone = add_state(length, links_to(state));
    for (std::uint32_t at = states_[state].first_edge; at != kNone; at = edges_[at].next) {
        const Edge edge = edges_[at];
        add_edge(slot_of(clone, edge.token), clone, edge.token, edge.to);
    }
    states_[state].link = clone;
    return clone;
}

void DryAutomaton::redirect(std::uint32_t first, std::uint32_t token, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t state = first; state != kNone; state = links_to(state)) {
        Edge& edge = edges_[edge_of(state, token)];
        if (edge.to != from) return;
        edge.to = to;
    }
}

// In a loop of one phrase the links from the newest state are as many as its repeats, and a query that began
// there would grow with the sequence; this state is known without walking them.
void DryAutomaton::follow_suffix(std::uint32_t newest, std::uint32_t token) {
    if (length_of(links_to(newest)) < longest_) {
        suffix_ = newest;
        return;
    }
    suffix_ = edges_[edge_of(suffix_, token)].to;
    if (length_of(links_to(suffix_)) >= longest_) suffix_ = links_to(suffix_);
}

void DryAutomaton::remove_last() {
    const Undo& undo = undo_[length_ - 1];
    if (undo.split != kNone) {
        const std::uint32_t clone = states_[undo.split].link;
        // An append's first edge leaves the last state by the new token.
        redirect(undo.redirected, edges_[undo.edges].token, clone, undo.split);
        states_[undo.split].link = links_to(clone);
    }
    while (edge_count_ > undo.edges) {
        const Edge& edge = edges_[--edge_count_];
        slots_[slot_of(edge.from, edge.token)] = 0;
        states_[edge.from].first_edge = edge.next;
    }
    state_count_ = undo.states;
    suffix_ = undo.suffix;
    --length_;
}

}  // namespace croupier::sampler
