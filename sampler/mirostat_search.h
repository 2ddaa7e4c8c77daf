// What mirostat keeps of all tokens if no filter stands before it: it is found among the best.
#pragma once

#include <optional>

#include "proto/sampling.h"
#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class MirostatSearch {
  public:
    // `pruning`: the request's adjustments and its temperature; nothing that removes a token.
    MirostatSearch(const proto::SamplingParams& params, const Request& request, const BlockedRow& row,
                   const Adjuster& adjust, CandidateSearch& search, const Pruning& pruning,
                   Workspace& workspace)
        : params_(params),
          request_(request),
          row_(row),
          adjust_(adjust),
          search_(search),
          pruning_(pruning),
          workspace_(workspace) {}

    // The kept tokens, weighed. Nothing if that has to be told from all tokens.
    std::optional<Survivors> kept() {
        return params_.mirostat == 1 ? kept_by_estimate() : kept_by_surprise();
    }

  private:
    std::optional<Survivors> kept_by_estimate();
    std::optional<Survivors> kept_by_surprise();

    const proto::SamplingParams& params_;
    const Request& request_;
    const BlockedRow& row_;
    const Adjuster& adjust_;
    CandidateSearch& search_;
    const Pruning& pruning_;
    Workspace& workspace_;
};

}  // namespace croupier::sampler
