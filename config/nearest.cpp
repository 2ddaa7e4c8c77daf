#include "config/nearest.h"

#include <algorithm>
#include <cstddef>

namespace croupier::config {

namespace {

// Insertions, deletions, replacements and swaps of neighbours: the slips of a typing hand.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a.size()][b.size()];
}

// "warning" for warn, "secret_key" for secret_key_file.
bool is_longer_or_shorter_form(std::string_view a, std::string_view b) {
    const std::size_t common = std::min(a.size(), b.size());
    return common >= 3 && a.substr(0, common) == b.substr(0, common);
}

}  // namespace

std::optional<std::string> nearest(std::string_view wrong, const std::vector<std::string>& known) {
    std::optional<std::string> best;
    std::size_t best_distance = 0;
    for (const std::string& word : known) {
        const std::size_t likely_slip = std::max<std::size_t>(1, word.size() / 3);
        // A word of another length cannot be close; this also bounds the work for absurdly long keys.
        if (wrong.size() > word.size() + likely_slip) continue;
        const std::size_t distance = edit_distance(wrong, word);
        if (distance > likely_slip || (best && distance >= best_distance)) continue;
        best = word;
        best_distance = distance;
    }
    if (best) return best;
    const auto form = std::find_if(known.begin(), known.end(), [&](const std::string& word) {
        return is_longer_or_shorter_form(wrong, word);
    });
    return form == known.end() ? std::nullopt : std::optional(*form);
}

}  // namespace croupier::config
