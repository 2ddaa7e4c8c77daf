// What a row's entries sum up to, beyond their weight: what top-n sigma, typical and the dynamic temperature
// ask of all of them.
#pragma once

namespace croupier::proto {

// Of the entries above -inf, each seen from the largest one: its distance is not above 0, and it weighs
// exp(distance * scale).
struct RowSpread {
    double tokens = 0.0;  // how many; 0: none, or they were not summed
    double distances = 0.0;
    double squares = 0.0;  // of the distances
    double weight = 0.0;
    double moments = 0.0;  // each weight times its distance

    // Seen from so far above the largest one, where `share` is what an entry weighs that is so far down. The
    // terms of each sum have one sign, so that nothing is cancelled.
    constexpr RowSpread from_above(double above, double share) const {
        return {tokens, distances - tokens * above, squares + above * (tokens * above - 2.0 * distances),
                weight * share, share * (moments - above * weight)};
    }
    constexpr void add(const RowSpread& other) {
        tokens += other.tokens;
        distances += other.distances;
        squares += other.squares;
        weight += other.weight;
        moments += other.moments;
    }
};

}  // namespace croupier::proto
