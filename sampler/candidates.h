// Truncation first: the tokens that can survive the first filters, found by a threshold on the raw row, with
// the proof that no other token can.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// What the first filters of an order let through at most. The defaults let all tokens through.
struct Pruning {
    std::int32_t top_k = 0;
    double min_p = 0.0;
    double scale = 1.0;                                       // at which min_p weighs
    double least = -std::numeric_limits<double>::infinity();  // what ends below it is not looked for
    bool gives_up = false;  // where more tokens pass than a list is good for
    Adjustments adjustments;

    bool none() const { return top_k == 0 && min_p == 0.0; }
};

struct Gathered {
    std::uint32_t count = 0;
    bool gave_up = false;
};

class CandidateSearch {
  public:
    CandidateSearch(const BlockedRow& row, const Adjuster& adjust, const Request& request,
                    Workspace& workspace)
        : row_(row), adjust_(adjust), request_(request), workspace_(workspace) {}

    // Leaves in the workspace's candidates, adjusted, every token that can pass; others may be among them.
    // With nothing to prune by but what ends too low, all others above -inf, in the order of their ids.
    Gathered search(const Pruning& pruning);

    // All tokens whose raw value is at least `floor` and whose adjusted one is above -inf.
    Gathered at_least(float floor, Adjustments on);

  private:
    // What a search looks for among the raw values, and which of the adjusted ones it keeps.
    struct Range {
        float floor;
        float ceiling;  // itself not among them
        double least;
    };

    Gathered listed(Adjustments on);
    Gathered listed_as_sent(Adjustments on);
    Gathered prune(const Pruning& pruning);
    bool few_reach(float floor, std::uint32_t wanted) const;
    float first_floor(const Pruning& pruning, std::uint32_t wanted) const;
    float lower_floor(const Pruning& pruning, const Range& range, std::uint32_t wanted) const;
    bool ask_for_needed(const Pruning& pruning, double least, std::uint32_t wanted);
    void gather(const Range& range, Adjustments on, Gathered& gathered);
    std::uint32_t found_below(float ceiling, std::uint32_t found);
    void drop_below(double floor, std::uint32_t& count);
    std::optional<double> cut_to_best(std::uint32_t k, std::uint32_t& count);
    double keep_needed(const Pruning& pruning, std::uint32_t& count);
    void list(std::uint32_t token);
    bool is_listed(std::uint32_t token) const;
    std::uint32_t take_raised(const Pruning& pruning);
    std::span<const Candidate> list_raised_above(const Pruning& pruning);
    double least_beside_list(const Pruning& pruning);
    void forget_raised();
    void take(std::uint32_t token, float raw, Adjustments on, std::uint32_t& count);

    const BlockedRow& row_;
    const Adjuster& adjust_;
    const Request& request_;
    Workspace& workspace_;
    std::span<const Candidate> raised_;  // while a search goes on: taken already, and listed
};

// No token below it can pass min_p. Its slack far exceeds the rounding of log and of the weights; tokens
// above it are judged by their weights, so that no bit of log reaches a decision.
double min_p_floor(double min_p, double scale, double maximum) noexcept;

// The values between which min_p's least one lies, where the scale lies between these.
struct ValueRange {
    double low;
    double high;
};
ValueRange min_p_range(double min_p, double low_scale, double high_scale, double maximum) noexcept;

// The largest value that at least `wanted` of the blocks reach, or one a little below it; -inf when there are
// fewer.
float floor_for_blocks(std::span<const float> block_max, std::uint32_t wanted) noexcept;

}  // namespace croupier::sampler
