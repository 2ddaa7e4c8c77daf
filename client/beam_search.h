// Beam search as Hugging Face's generate(num_beams) defines it, over the best log-probs of each beam: a state
// without a session. include/croupier/beams.h says what a step does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "croupier/types.h"
#include "shm/error.h"

namespace croupier::client {

enum class EarlyStopping : std::uint32_t { no, yes, never };

struct BeamOptions {
    std::uint32_t width = 0;
    std::uint32_t max_tokens = 0;
    std::uint32_t min_tokens = 0;
    EarlyStopping early_stopping = EarlyStopping::no;
    double length_penalty = 1.0;
    std::vector<std::int32_t> stop_ids;
};

class BeamSearch {
  public:
    struct Row {
        std::span<const croupier_logprob> best;
        bool is_all = false;  // the row has no other token
    };
    // `parent`, a beam before the step, goes on with the token.
    struct Beam {
        std::uint32_t parent;
        std::int32_t token;
        double logprob;  // of all its tokens
    };
    struct Hypothesis {
        double score;
        double logprob;
        bool stopped;  // by a stop id
        std::uint32_t last;
    };

    static shm::Result<BeamSearch> begin(BeamOptions options);

    const BeamOptions& options() const { return options_; }
    // Log-probs of each beam with which a step is exact: of a beam's children at most one for each stop id
    // ends, and at most `width` others go on.
    std::uint32_t candidates() const {
        return options_.width + static_cast<std::uint32_t>(options_.stop_ids.size());
    }

    // Fails without having changed anything.
    shm::Result<bool> step(std::span<const Row> rows);
    bool is_over() const { return beams_.empty(); }
    // How many beams stood in the last step.
    std::size_t beams_before() const { return before_; }
    // That go on, the best first; none when the search is over.
    std::span<const Beam> beams() const;
    // The best first.
    std::span<const Hypothesis> hypotheses() const { return finished_; }
    std::vector<std::int32_t> tokens_of(const Hypothesis& hypothesis) const;

  private:
    // A token of one beam or more, and the one before it.
    struct Link {
        std::uint32_t before;
        std::int32_t token;
    };

    explicit BeamSearch(BeamOptions options);
    shm::Result<bool> check(std::span<const Row> rows) const;
    void rank_candidates(std::span<const Row> rows);
    void keep(const Hypothesis& hypothesis);
    bool can_improve() const;
    bool is_stop(std::int32_t token) const;
    double score_of(double logprob, std::uint32_t tokens) const;
    std::uint32_t append(const Beam& beam);

    BeamOptions options_;
    std::uint32_t tokens_ = 0;  // of each beam
    std::size_t before_ = 0;
    std::vector<Beam> beams_;
    std::vector<std::uint32_t> lasts_;  // the last link of each beam
    std::vector<Hypothesis> finished_;
    std::vector<Link> links_;
    std::vector<Beam> candidates_;            // of the step, the best first
    std::vector<std::uint32_t> lasts_after_;  // of the step
};

}  // namespace croupier::client
