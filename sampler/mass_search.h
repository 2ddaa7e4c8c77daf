// Decisions that depend on the mass of the whole row, from a sum with a bounded error: what the error leaves
// open is decided from the exact sum.
#pragma once

#include <cstdint>
#include <optional>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/chain.h"
#include "sampler/row_mass.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class MassSearch {
  public:
    MassSearch(const BlockedRow& row, const Adjuster& adjust, CandidateSearch& search, const Request& request,
               const Pruning& pruning, Workspace& workspace)
        : row_(row),
          adjust_(adjust),
          search_(search),
          request_(request),
          on_(pruning.adjustments),
          scale_(pruning.scale),
          workspace_(workspace) {}

    // An inverse CDF in vocabulary order over all tokens. Nothing: the whole row has to be looked at.
    std::optional<Candidate> draw();

    // What the chain leaves of an order that begins with top_p. Nothing: more than so many blocks, or the
    // whole row, have to be looked at.
    std::optional<Survivors> filter(Chain& chain, std::uint32_t most_blocks);

  private:
    // In units of the weight of the largest raw value; known up to an error.
    struct Known {
        double weight = 0.0;
        double error = 0.0;
    };

    std::optional<Known> weigh_row();
    bool weigh_changes();
    std::optional<Candidate> draw_bounded(const Known& total);
    std::optional<Candidate> draw_exact();
    template <typename Passes>
    std::optional<Candidate> first_in_group(std::uint32_t group, Passes passes) const;
    std::optional<Candidate> find_in_group(std::uint32_t group, double before, double target,
                                           double error) const;
    std::optional<TotalMass> outside_of(const Survivors& survivors, const Known& total) const;

    std::uint32_t group_of(std::uint32_t position) const;
    Weigher raw_weigher() const { return {unit_, scale_}; }
    MassQuery query() const { return {row_, request_.mask, search_.order(), unit_, scale_}; }

    const BlockedRow& row_;
    const Adjuster& adjust_;
    CandidateSearch& search_;
    const Request& request_;
    Adjustments on_;
    double scale_;
    Workspace& workspace_;
    double unit_ = 0.0;  // the largest raw value that the mask allows
};

}  // namespace croupier::sampler
