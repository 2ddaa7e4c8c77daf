// Calls the sampler: the daemon's code, or the reference, which must give the same result.
#pragma once

#include <memory>
#include <string>

#include "explain/case.h"
#include "sampler/reference/decide.h"

namespace croupier::explain {

// The outcome in the reference's form and, for the fast code, its path.
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
