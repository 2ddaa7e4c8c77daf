// A nucleus, which depends on the mass of the whole row, from a sum of that with a bounded error.
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

    // What the chain leaves of an order that begins with top_p. Nothing: the whole row has to be looked at.
    std::optional<Survivors> filter(Chain& chain);

  private:
    // In units of the weight of the largest raw value; known up to an error.
    struct Known {
        double weight = 0.0;
        double error = 0.0;
    };

    std::optional<Known> weigh_row();
    std::optional<double> weigh_changes();
    std::optional<TotalMass> outside_of(const Survivors& survivors, const Known& total) const;

    Weigher raw_weigher() const { return {unit_, scale_}; }

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
