// What a top-p keeps of all tokens if it is the first filter: listed, for the filters behind it.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/sampling.h"
#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/survivors.h"
#include "sampler/winner_question.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class NucleusSearch {
  public:
    // `pruning`: what stands in the order before the top-p; nothing that removes a token.
    NucleusSearch(const proto::SamplingParams& params, const BlockedRow& row, const Adjuster& adjust,
                  CandidateSearch& search, const Pruning& pruning, Workspace& workspace)
        : params_(params),
          row_(row),
          adjust_(adjust),
          search_(search),
          pruning_(pruning),
          workspace_(workspace) {}

    // The kept tokens, weighed. Nothing if that has to be told from all tokens.
    std::optional<Survivors> kept();

  private:
    struct Listed {
        std::uint32_t count = 0;
        double weight = 0.0;  // together, as WinnerQuestion::weight()
    };
    Listed list(float floor, const WinnerQuestion& row);
    std::optional<std::uint32_t> list_share(const WinnerQuestion& row);

    const proto::SamplingParams& params_;
    const BlockedRow& row_;
    const Adjuster& adjust_;
    CandidateSearch& search_;
    const Pruning& pruning_;
    Workspace& workspace_;
};

}  // namespace croupier::sampler
