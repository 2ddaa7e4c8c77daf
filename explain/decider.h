// The one place that calls the sampler: the code that the daemon runs, or the reference that it must equal.
#pragma once

#include <memory>
#include <string>

#include "explain/case.h"
#include "sampler/reference/decide.h"

namespace croupier::explain {

// The reference's outcome and, of the fast code, how it was reached.
struct Outcome : sampler::reference::Outcome {
    std::string path;  // sampler::name_of; empty for the reference
};

class Decider {
  public:
    Decider();
    ~Decider();
    Decider(const Decider&) = delete;
    Decider& operator=(const Decider&) = delete;

    Outcome decide(const sampler::RowView& row, const sampler::Request& request, Impl impl);

  private:
    struct Fast;
    std::unique_ptr<Fast> fast_;
};

}  // namespace croupier::explain
