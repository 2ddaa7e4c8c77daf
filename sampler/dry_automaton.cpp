#include "sampler/dry_automaton.h"

#include "sampler/growing.h"

namespace croupier::sampler {

void DryAutomaton::begin(std::uint32_t longest) {
    longest_ = longest;
    prefixes_.clear();
    clones_.clear();
    originals_.clear();
    undo_.clear();
    edges_.clear();
    suffix_ = kRoot;
    push_growing(prefixes_, {kNone, kNone, {}});
}

// Where the state's edge by this token leads; kNone: it has none.
std::uint32_t DryAutomaton::go(std::uint32_t state, std::uint32_t token) const {
    const State& from = state_of(state);
    if (!is_clone(state) && from.value == token) return state + 1;
    return edges_.find(from.edges, token);
}

void DryAutomaton::append(std::uint32_t token) {
    const std::uint32_t last = length();
    const std::uint32_t newest = last + 1;
    Undo undo{suffix_, kNone};
    prefixes_[last].value = token;
    std::uint32_t state = links_to(last);
    std::uint32_t target = kNone;
    for (; state != kNone; state = links_to(state)) {
        target = go(state, token);
        if (target != kNone) break;
        edges_.add(state_of(state).edges, token, newest);
    }
    push_growing(prefixes_, {kNone, kRoot, {}});
    if (state != kNone) {
        const std::uint32_t length = length_of(state) + 1;
        if (length_of(target) == length) {
            prefixes_[newest].link = target;
        } else {
            undo.redirected = state;
            const std::uint32_t clone = split(target, length);
            redirect(state, token, target, clone);
            prefixes_[newest].link = clone;
        }
    }
    push_growing(undo_, undo);
    follow_suffix(newest, token);
}

// The clone takes over the state's strings of up to this length: they have just ended at a place where its
// longer ones do not.
std::uint32_t DryAutomaton::split(std::uint32_t state, std::uint32_t length) {
    const auto clone = kClone | static_cast<std::uint32_t>(clones_.size());
    State& original = state_of(state);
    State made{length, original.link, edges_.copy(original.edges)};
    if (!is_clone(state)) edges_.add(made.edges, original.value, state + 1);
    original.link = clone;
    push_growing(clones_, made);
    push_growing(originals_, state);
    return clone;
}

// The first of them is no longer than a clone's string without its last token, so none is a prefix's own
// edge.
void DryAutomaton::redirect(std::uint32_t first, std::uint32_t token, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t state = first; state != kNone; state = links_to(state)) {
        if (go(state, token) != from) return;
        edges_.lead(state_of(state).edges, token, to);
    }
}

// In a loop of one phrase the links from the newest state are as many as its repeats, and a query that began
// there would grow with the sequence; this state is known without walking them.
void DryAutomaton::follow_suffix(std::uint32_t newest, std::uint32_t token) {
    if (length_of(links_to(newest)) < longest_) {
        suffix_ = newest;
        return;
    }
    suffix_ = go(suffix_, token);
    if (length_of(links_to(suffix_)) >= longest_) suffix_ = links_to(suffix_);
}

void DryAutomaton::remove_last() {
    const std::uint32_t newest = length();
    const Undo undo = undo_.back();
    undo_.pop_back();
    const std::uint32_t last = newest - 1;
    const std::uint32_t token = prefixes_[last].value;
    if (undo.redirected != kNone) unsplit(undo.redirected, token);
    for (std::uint32_t state = links_to(last); state != kNone && go(state, token) == newest;
         state = links_to(state)) {
        edges_.remove(state_of(state).edges, token);
    }
    prefixes_.pop_back();
    prefixes_[last].value = kNone;
    suffix_ = undo.suffix;
}

void DryAutomaton::unsplit(std::uint32_t redirected, std::uint32_t token) {
    const auto clone = kClone | static_cast<std::uint32_t>(clones_.size() - 1);
    const std::uint32_t original = originals_.back();
    redirect(redirected, token, clone, original);
    state_of(original).link = links_to(clone);
    edges_.release(clones_.back().edges);
    clones_.pop_back();
    originals_.pop_back();
}

std::size_t DryAutomaton::bytes() const {
    return bytes_of(prefixes_) + bytes_of(clones_) + bytes_of(originals_) + bytes_of(undo_) + edges_.bytes();
}

}  // namespace croupier::sampler
