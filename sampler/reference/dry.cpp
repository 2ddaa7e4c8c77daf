#include <algorithm>
#include <map>
#include <set>

#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

using Ids = std::span<const std::int32_t>;

std::vector<Ids> lists_of(TokenLists lists) {
    std::vector<Ids> result;
    while (!lists.empty()) {
        const auto length = static_cast<std::size_t>(lists[0]);
        result.push_back(lists.subspan(1, length));
        lists = lists.subspan(1 + length);
    }
    return result;
}

bool stands_at(const std::vector<std::int32_t>& window, std::size_t place, Ids list) {
    return list.size() <= window.size() - place &&
           std::equal(list.begin(), list.end(), window.begin() + static_cast<std::ptrdiff_t>(place));
}

// How many tokens follow the newest breaker: the one that begins last, and of those the longest.
std::size_t tokens_after_breaker(const std::vector<std::int32_t>& window, const std::vector<Ids>& breakers) {
    for (std::size_t place = window.size(); place-- > 0;) {
        std::size_t longest = 0;
        for (const Ids breaker : breakers) {
            if (stands_at(window, place, breaker)) longest = std::max(longest, breaker.size());
        }
        if (longest > 0) return window.size() - place - longest;
    }
    return window.size();
}

// Z[k]: how many of the first tokens stand again from k on (the Z-algorithm; linear).
std::vector<std::size_t> z_lengths(const std::vector<std::int32_t>& text) {
    std::vector<std::size_t> z(text.size(), 0);
    std::size_t left = 0;
    std::size_t right = 0;  // [left, right) is the match that reaches farthest
    for (std::size_t k = 1; k < text.size(); ++k) {
        if (k < right) z[k] = std::min(right - k, z[k - left]);
        while (k + z[k] < text.size() && text[z[k]] == text[k + z[k]]) ++z[k];
        if (k + z[k] > right) {
            left = k;
            right = k + z[k];
        }
    }
    return z;
}

// The longest repeat that each token would extend.
std::map<std::int32_t, std::size_t> repeats_of(std::vector<std::int32_t> window, std::size_t limit) {
    std::map<std::int32_t, std::size_t> repeats;
    std::reverse(window.begin(), window.end());
    const std::vector<std::size_t> z = z_lengths(window);
    for (std::size_t k = 1; k < window.size(); ++k) {
        std::size_t& longest = repeats[window[k - 1]];
        longest = std::max(longest, std::min(z[k], limit));
    }
    return repeats;
}

}  // namespace

std::string apply_dry(const Request& request, Left& left) {
    const proto::SamplingParams& params = *request.params;
    const auto whole = request.prompt.size() + request.output.size();
    const auto window = newest_tokens(
        request, params.dry_penalty_last_n < 0 ? whole : static_cast<std::size_t>(params.dry_penalty_last_n));
    const std::vector<Ids> breakers = lists_of(request.dry_breakers);
    const std::size_t limit = tokens_after_breaker(window, breakers);
    const std::map<std::int32_t, std::size_t> repeats = repeats_of(window, limit);

    std::set<std::int32_t> exempt;
    for (const Ids breaker : breakers) {
        if (breaker.size() == 1) exempt.insert(breaker.front());
    }
    std::size_t changed = 0;
    for (Token& token : left.tokens) {
        const auto repeat = repeats.find(token.id);
        if (repeat == repeats.end() || exempt.count(token.id) > 0) continue;
        if (repeat->second < static_cast<std::size_t>(params.dry_allowed_length)) continue;
        token.value -= dry_penalty(params, static_cast<std::uint32_t>(repeat->second));
        ++changed;
    }
    return sentence("changed ", changed, " logits; repeats count up to ", limit, " tokens");
}

}  // namespace croupier::sampler::reference
