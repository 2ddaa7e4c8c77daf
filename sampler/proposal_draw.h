// The untruncated draw, from block maxima: of a row that they sum up it reads a few dozen blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/mass.h"
#include "sampler/proposals.h"
#include "sampler/request.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Whether the request names its tokens, or masks all but a few: those are drawn from as they are.
bool allows_few(const Request& request) noexcept;

ProposalRandoms randoms_of(const proto::SamplingParams& params, const Request& request,
                           std::uint32_t n) noexcept;

class ProposalDraw {
  public:
    // `on`: all adjustments of the request. Leaves the workspace's candidates as they are.
    ProposalDraw(const BlockedRow& row, const Adjuster& adjust, Adjustments on, Workspace& workspace)
        : row_(row), adjust_(adjust), on_(on), workspace_(workspace) {}

    // Nothing if all proposals were rejected, or if the row does not allow one.
    std::optional<Candidate> draw(const proto::SamplingParams& params, const Request& request, double scale);

  private:
    struct Proposal {
        std::uint32_t token;  // or an id beyond the vocabulary
        Mass mass;
    };

    bool prepare(const Request& request, double scale);
    void gather_lifts();
    void choose_head();
    void take_hot_blocks(std::span<const std::uint32_t> hot_blocks);
    Proposal in_head(Mass target) const;
    Proposal in_tail(Mass target) const;
    std::optional<Candidate> judge(const Proposal& proposal, std::uint64_t verdict) const;
    Mass lift_of(const Candidate& lifted) const;

    const BlockedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    Workspace& workspace_;
    Weigher weigher_{0.0, 1.0};
    MassBound bound_{weigher_};
    std::span<Candidate> lifts_;  // in the order of their ids
    std::span<const std::uint32_t> head_;
    Mass lifted_ = 0;
    Mass in_head_ = 0;
    Mass in_tail_ = 0;
    Mass total_ = 0;
};

}  // namespace croupier::sampler
