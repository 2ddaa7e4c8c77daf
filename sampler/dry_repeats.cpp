#include "sampler/dry_repeats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sampler/growing.h"
#include "sampler/params.h"

namespace croupier::sampler {
namespace {

constexpr std::size_t kFirstMarks = 64;

// docs/decisions/0005: base^n grows to the largest float and no further, unless the base is all but 1.
constexpr double kLnLargestFloat = 88.7228391;
constexpr double kSmallestBoundedBase = 1.000001;

// From which length on all repeats cost the same. One more than that, so that the rounding of a logarithm
// here or in the penalty decides nothing.
std::uint32_t longest_that_counts(std::uint32_t allowed_length, double base) {
    if (base <= 1.0) return allowed_length;
    if (!(base > kSmallestBoundedBase)) return std::numeric_limits<std::uint32_t>::max();
    return allowed_length + static_cast<std::uint32_t>(kLnLargestFloat / std::log(base)) + 1;
}

}  // namespace

DryRepeats::DryRepeats(std::uint32_t vocab, std::uint32_t max_length)
    : vocab_(vocab), max_length_(max_length) {}

void DryRepeats::begin(const proto::SamplingParams& params, TokenLists breakers) {
    breakers_.clear();
    lone_breakers_.clear();
    mode_ = Mode::off;
    if (!takes_step(params, proto::Step::dry)) return;
    allowed_length_ = static_cast<std::uint32_t>(std::max(params.dry_allowed_length, 1));
    longest_ = longest_that_counts(allowed_length_, params.dry_base);
    const auto last_n = static_cast<std::uint32_t>(params.dry_penalty_last_n);
    const bool whole = params.dry_penalty_last_n < 0 || last_n >= max_length_;
    window_ = whole ? max_length_ : last_n;
    if (marks_.empty()) use_marks(kFirstMarks);
    take_breakers(breakers);
    mode_ = whole ? Mode::automaton : Mode::window;
    clear();
}

// A list that is cut short ends the lists; a breaker with an id outside the vocabulary can never occur.
void DryRepeats::take_breakers(TokenLists lists) {
    breaker_tokens_.assign(lists.begin(), lists.end());
    std::size_t at = 0;
    while (at < breaker_tokens_.size()) {
        const std::uint32_t size = breaker_tokens_[at++];
        if (size > breaker_tokens_.size() - at) break;
        const auto tokens = std::span(breaker_tokens_).subspan(at, size);
        const auto known = [this](std::uint32_t token) { return token < vocab_; };
        if (size != 0 && std::all_of(tokens.begin(), tokens.end(), known)) {
            breakers_.push_back({tokens.back(), size, static_cast<std::uint32_t>(at)});
            if (size == 1) lone_breakers_.push_back(tokens.back());
        }
        at += size;
    }
    std::sort(breakers_.begin(), breakers_.end(),
              [](const Breaker& left, const Breaker& right) { return left.last < right.last; });
    std::sort(lone_breakers_.begin(), lone_breakers_.end());
}

void DryRepeats::clear() {
    if (mode_ == Mode::off) return;
    length_ = 0;
    newest_.clear();
    if (mode_ == Mode::automaton) automaton_.begin(longest_);
}

void DryRepeats::appended(std::span<const std::uint32_t> tokens) {
    if (mode_ == Mode::off) return;
    ++length_;
    if (!breakers_.empty()) note_breaker(tokens);
    if (mode_ == Mode::automaton) automaton_.append(tokens.back());
}

void DryRepeats::remove_last() {
    if (mode_ == Mode::off) return;
    if (!newest_.empty() && newest_.back().since == length_) newest_.pop_back();
    --length_;
    if (mode_ == Mode::automaton) automaton_.remove_last();
}

// The one that began last counts, as in llama.cpp: one that lies inside a longer breaker hides that one's
// end.
void DryRepeats::note_breaker(std::span<const std::uint32_t> tokens) {
    NewestBreaker newest = newest_breaker();
    const std::uint32_t last = tokens.back();
    auto breaker =
        std::lower_bound(breakers_.begin(), breakers_.end(), last,
                         [](const Breaker& left, std::uint32_t token) { return left.last < token; });
    for (; breaker != breakers_.end() && breaker->last == last; ++breaker) {
        if (breaker->size > tokens.size()) continue;
        const auto ending = tokens.last(breaker->size);
        const auto begin = static_cast<std::uint32_t>(tokens.size() - breaker->size);
        if (begin < newest.begin) continue;
        if (std::equal(ending.begin(), ending.end(), breaker_tokens_.begin() + breaker->offset)) {
            newest = {begin, static_cast<std::uint32_t>(tokens.size()), length_};
        }
    }
    if (newest.since == length_) push_growing(newest_, newest);
}

bool DryRepeats::breaks_alone(std::uint32_t token) const {
    return std::binary_search(lone_breakers_.begin(), lone_breakers_.end(), token);
}

std::span<const Repeat> DryRepeats::repeats(std::span<const std::uint32_t> tokens) {
    if (mode_ == Mode::off) return {};
    start_query();
    const auto window = tokens.last(std::min<std::size_t>(tokens.size(), window_));
    const NewestBreaker newest = newest_breaker();
    const bool breaker_in_window = newest.begin >= tokens.size() - window.size();
    const std::size_t unbroken = breaker_in_window ? tokens.size() - newest.end : window.size();
    const auto bound = static_cast<std::uint32_t>(std::min<std::size_t>(unbroken, longest_));
    if (bound >= allowed_length_) {
        if (mode_ == Mode::window) {
            find_in_window(window, bound);
        } else {
            automaton_.continuations(
                allowed_length_, bound,
                [this](std::uint32_t token, std::uint32_t length) { found(token, length); });
        }
    }
    return found_;
}

// The Z function of the window read backwards: how far the tokens before each place agree with the newest.
void DryRepeats::find_in_window(std::span<const std::uint32_t> window, std::uint32_t bound) {
    if (window.empty()) return;
    const auto size = static_cast<std::uint32_t>(window.size());
    if (matches_.size() < size) {
        reserve_growing(matches_, size);
        matches_.resize(size);
    }
    const std::uint32_t* const newest = &window.back();
    const auto back = [newest](std::uint32_t distance) { return *(newest - distance); };
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    for (std::uint32_t place = 1; place < size; ++place) {
        std::uint32_t match = 0;
        if (place < right) {
            match = std::min(right - place, matches_[place - left]);
        } else if (back(place) != *newest) {
            // Nearly all places go this short way.
            matches_[place] = 0;
            continue;
        }
        while (place + match < size && back(match) == back(place + match)) ++match;
        matches_[place] = match;
        if (place + match > right) {
            left = place;
            right = place + match;
        }
        if (match >= allowed_length_) found(back(place - 1), std::min(match, bound));
    }
}

void DryRepeats::found(std::uint32_t token, std::uint32_t length) {
    const std::size_t mark = mark_of(token);
    const std::uint32_t place = marks_[mark] - first_stamp_;
    if (place < found_.size()) {
        found_[place].length = std::max(found_[place].length, length);
        return;
    }
    if (!lone_breakers_.empty() && breaks_alone(token)) return;
    marks_[mark] = first_stamp_ + static_cast<std::uint32_t>(found_.size());
    push_growing(found_, {token, length});
    if (2 * found_.size() > marks_.size()) use_marks(2 * marks_.size());
}

std::uint32_t DryRepeats::length_of(std::uint32_t token) const {
    if (found_.empty()) return 0;
    const std::uint32_t place = marks_[mark_of(token)] - first_stamp_;
    return place < found_.size() ? found_[place].length : 0;
}

// Where the token's mark stands, or an empty one. Multiplicative hashing: the product's high bits depend on
// all bits of the token.
std::size_t DryRepeats::mark_of(std::uint32_t token) const {
    const std::size_t mask = marks_.size() - 1;
    for (std::size_t at = (token * 0x9E3779B97F4A7C15U >> 32U) & mask;; at = (at + 1) & mask) {
        const std::uint32_t place = marks_[at] - first_stamp_;
        if (place >= found_.size() || found_[place].token == token) return at;
    }
}

void DryRepeats::start_query() {
    first_stamp_ += static_cast<std::uint32_t>(found_.size());
    found_.clear();
    if (first_stamp_ > std::numeric_limits<std::uint32_t>::max() / 2) use_marks(marks_.size());
}

void DryRepeats::use_marks(std::size_t count) {
    marks_.assign(count, 0);
    first_stamp_ = 1;
    for (std::uint32_t place = 0; place < found_.size(); ++place) {
        marks_[mark_of(found_[place].token)] = first_stamp_ + place;
    }
}

std::size_t DryRepeats::bytes() const {
    return bytes_of(breakers_) + bytes_of(breaker_tokens_) + bytes_of(lone_breakers_) + bytes_of(newest_) +
           bytes_of(found_) + bytes_of(marks_) + bytes_of(matches_) + automaton_.bytes();
}

}  // namespace croupier::sampler
