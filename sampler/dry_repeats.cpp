#include "sampler/dry_repeats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sampler/params.h"

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kBreaksAlone = 1U << 31U;  // the token is a whole breaker
constexpr std::uint32_t kEndsBreaker = 1U << 30U;
constexpr std::uint32_t kStamps = kEndsBreaker - 1;

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
    for (const Breaker& breaker : breakers_) marks_[breaker.last] &= kStamps;
    breakers_.clear();
    mode_ = Mode::off;
    if (!takes_step(params, proto::Step::dry)) return;
    allowed_length_ = static_cast<std::uint32_t>(std::max(params.dry_allowed_length, 1));
    longest_ = longest_that_counts(allowed_length_, params.dry_base);
    const auto last_n = static_cast<std::uint32_t>(params.dry_penalty_last_n);
    const bool whole = params.dry_penalty_last_n < 0 || last_n >= max_length_;
    reserve(whole ? 0 : last_n);
    take_breakers(breakers);
    mode_ = whole ? Mode::automaton : Mode::window;
    clear();
}

void DryRepeats::reserve(std::uint32_t window) {
    if (marks_ == nullptr) {
        found_ = std::make_unique_for_overwrite<Repeat[]>(std::min(vocab_, max_length_));
        newest_ = std::make_unique_for_overwrite<NewestBreaker[]>(std::size_t{max_length_} + 1);
        marks_ = std::make_unique<std::uint32_t[]>(vocab_);
    }
    if (window == 0) {
        automaton_.reserve(max_length_);
    } else if (window > window_capacity_) {
        matches_ = std::make_unique_for_overwrite<std::uint32_t[]>(window);
        window_capacity_ = window;
    }
    window_ = window == 0 ? max_length_ : window;
}

// A list that is cut short ends the lists; a breaker with an id outside the vocabulary can never occur.
void DryRepeats::take_breakers(TokenLists lists) {
    breaker_tokens_.assign(lists.begin(), lists.end());
    std::size_t at = 0;
    while (at < breaker_tokens_.size()) {
        const std::uint32_t size = breaker_tokens_[at++];
        if (size > breaker_tokens_.size() - at) return;
        const auto tokens = std::span(breaker_tokens_).subspan(at, size);
        const auto known = [this](std::uint32_t token) { return token < vocab_; };
        if (size != 0 && std::all_of(tokens.begin(), tokens.end(), known)) {
            breakers_.push_back({tokens.back(), size, static_cast<std::uint32_t>(at)});
            marks_[tokens.back()] |= kEndsBreaker | (size == 1 ? kBreaksAlone : 0);
        }
        at += size;
    }
    std::sort(breakers_.begin(), breakers_.end(),
              [](const Breaker& left, const Breaker& right) { return left.last < right.last; });
}

void DryRepeats::clear() {
    if (mode_ == Mode::off) return;
    newest_[0] = {0, 0};
    if (mode_ == Mode::automaton) automaton_.begin(longest_);
}

void DryRepeats::appended(std::span<const std::uint32_t> tokens) {
    if (mode_ == Mode::off) return;
    newest_[tokens.size()] = newest_breaker(tokens);
    if (mode_ == Mode::automaton) automaton_.append(tokens.back());
}

void DryRepeats::remove_last() {
    if (mode_ == Mode::automaton) automaton_.remove_last();
}

// The one that began last counts, as in llama.cpp: one that lies inside a longer breaker hides that one's
// end.
DryRepeats::NewestBreaker DryRepeats::newest_breaker(std::span<const std::uint32_t> tokens) const {
    NewestBreaker newest = newest_[tokens.size() - 1];
    const std::uint32_t last = tokens.back();
    if ((marks_[last] & kEndsBreaker) == 0) return newest;
    auto breaker =
        std::lower_bound(breakers_.begin(), breakers_.end(), last,
                         [](const Breaker& left, std::uint32_t token) { return left.last < token; });
    for (; breaker != breakers_.end() && breaker->last == last; ++breaker) {
        if (breaker->size > tokens.size()) continue;
        const auto ending = tokens.last(breaker->size);
        const auto begin = static_cast<std::uint32_t>(tokens.size() - breaker->size);
        if (begin < newest.begin) continue;
        if (std::equal(ending.begin(), ending.end(), breaker_tokens_.begin() + breaker->offset)) {
            newest = {begin, static_cast<std::uint32_t>(tokens.size())};
        }
    }
    return newest;
}

std::span<const Repeat> DryRepeats::repeats(std::span<const std::uint32_t> tokens) {
    if (mode_ == Mode::off) return {};
    start_query();
    const auto window = tokens.last(std::min<std::size_t>(tokens.size(), window_));
    const NewestBreaker newest = newest_[tokens.size()];
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
    return {found_.get(), found_count_};
}

// The Z function of the window read backwards: how far the tokens before each place agree with the newest.
void DryRepeats::find_in_window(std::span<const std::uint32_t> window, std::uint32_t bound) {
    if (window.empty()) return;
    const auto size = static_cast<std::uint32_t>(window.size());
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

// Stamps of this query tell a token's place in found_; those of earlier queries are below first_stamp_.
void DryRepeats::found(std::uint32_t token, std::uint32_t length) {
    std::uint32_t& mark = marks_[token];
    if ((mark & kBreaksAlone) != 0) return;
    const std::uint32_t place = (mark & kStamps) - first_stamp_;
    if (place < found_count_) {
        found_[place].length = std::max(found_[place].length, length);
        return;
    }
    mark = (mark & ~kStamps) | (first_stamp_ + found_count_);
    found_[found_count_++] = {token, length};
}

void DryRepeats::start_query() {
    first_stamp_ += found_count_;
    found_count_ = 0;
    if (first_stamp_ <= kStamps - vocab_) return;
    for (std::uint32_t token = 0; token < vocab_; ++token) marks_[token] &= ~kStamps;
    first_stamp_ = 1;
}

}  // namespace croupier::sampler
