// A request's order of steps: what the search may prune by, and the filters, one after another.
#pragma once

#include <optional>

#include "proto/sampling.h"
#include "request/plan.h"
#include "sampler/adjuster.h"
#include "sampler/candidates.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// The adjustments of all steps of the order, wherever they stand in it.
Adjustments all_adjustments(const proto::SamplingParams& params) noexcept;

// What stands in the order before its first filter, and what that filter lets through, as the plan says.
Pruning pruning_of(const proto::SamplingParams& params, const request::Plan& plan) noexcept;

class Chain {
  public:
    Chain(const proto::SamplingParams& params, const Request& request, const Adjuster& adjust,
          Workspace& workspace)
        : params_(params), request_(request), adjust_(adjust), workspace_(workspace) {}

    // Applies the order's filters to candidates that were searched for with the adjustments `done`, except
    // the filter `applied`, which the search applied already. Whether the survivors are weighed, and at which
    // temperature, is left open.
    // `given`: the dynamic temperature, where it does not follow from the candidates.
    void apply(Survivors& survivors, const Adjustments& done, proto::Step applied,
               std::optional<double> given = std::nullopt);
    double temperature() const { return temperature_; }

  private:
    void adjust_late(Survivors& survivors, proto::Step step);
    void set_temperature(Survivors& survivors);

    const proto::SamplingParams& params_;
    const Request& request_;
    const Adjuster& adjust_;
    Workspace& workspace_;
    double temperature_ = 1.0;
};

}  // namespace croupier::sampler
