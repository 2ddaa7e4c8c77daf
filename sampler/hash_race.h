// The draws of other engines (rng sglang and vllm): the largest of the logits and their noise, without the
// noise of every token. Its hash tells whether a token can win before any logarithm is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/canonical_order.h"
#include "sampler/changed_tokens.h"
#include "sampler/draw.h"
#include "sampler/hash_noise.h"
#include "sampler/race_arrivals.h"
#include "sampler/request.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class HashRace {
  public:
    // `on`: all adjustments of the request. Reads the block maxima of the workspace when it is run.
    HashRace(const BlockedRow& row, const Adjuster& adjust, Adjustments on,
             const proto::SamplingParams& params, const Request& request, Workspace& workspace)
        : row_(row), adjust_(adjust), on_(on), params_(params), request_(request), workspace_(workspace) {}

    // As Race::winner().
    template <class Eligible>
    std::optional<Candidate> winner(double temperature, const BoundedValues& values, Eligible eligible) {
        best_.reset();
        score_ = kLeastScore;
        const auto lifts = list_raised(adjust_, on_, row_, workspace_, workspace_.lifts);
        for (const Candidate& each : lifts) offer(each, temperature, eligible);
        // If the likely winners are forbidden or lowered, the next ones stand a little lower. Going down at
        // once to the first score that was found, perhaps that of an unlikely token, would hash and score the
        // whole row.
        constexpr double kStep = 4.0;
        constexpr int kMostSteps = 12;
        double least = std::max(score_, likely_score(temperature, values));
        for (int steps = 1;; ++steps) {
            const std::uint32_t count = list_contenders(temperature, values, least);
            for (const std::uint32_t token : workspace_.contenders.first(count))
                run(token, temperature, eligible);
            // Tokens that did not contend score less. With no contender above the limit, going further down
            // would find nothing.
            if (!(score_ < least) || row_.lacks_blocks()) return best_;
            least = steps <= kMostSteps ? std::max(score_, least - kStep) : score_;
        }
    }

  private:
    static constexpr double kLeastScore = -std::numeric_limits<double>::infinity();

    double likely_score(double temperature, const BoundedValues& values);
    std::uint32_t list_contenders(double temperature, const BoundedValues& values, double least);

    template <class Eligible>
    void run(std::uint32_t token, double temperature, const Eligible& eligible) {
        if (token >= row_.vocab) return;
        offer({adjust_(token, row_.value_at(token), on_), token}, temperature, eligible);
    }

    template <class Eligible>
    void offer(const Candidate& candidate, double temperature, const Eligible& eligible) {
        // A NaN too is none: maxima may hide one.
        if (!(candidate.value > -std::numeric_limits<double>::infinity()) || !eligible(candidate)) return;
        ++workspace_.answer_space.candidates;
        const double score = perturbed_score(params_, request_, candidate, temperature);
        const bool better =
            !best_ || score > score_ || (score == score_ && canonically_before(candidate, *best_));
        if (!better) return;
        best_ = candidate;
        score_ = score;
    }

    const BlockedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    const proto::SamplingParams& params_;
    const Request& request_;
    Workspace& workspace_;
    std::optional<Candidate> best_;
    double score_ = kLeastScore;
};

}  // namespace croupier::sampler
