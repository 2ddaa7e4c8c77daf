// What each step did, for whoever asked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sampler/reference/decide.h"
#include "sampler/reference/left.h"

namespace croupier::sampler::reference {

class Account {
  public:
    explicit Account(bool wanted) : wanted_(wanted) {}

    // Takes the step and, where the account is wanted, notes it. At least one token is left before it.
    template <class Step>
    void take(const char* name, Left& left, const Step& step) {
        if (!wanted_) {
            step();
            return;
        }
        const std::vector<Token> before(left.tokens.begin(), left.tokens.end());
        std::string did = step();
        note(name, before, left, std::move(did));
    }

    std::vector<StepAccount> steps() && { return std::move(steps_); }

  private:
    void note(const char* name, const std::vector<Token>& before, const Left& after, std::string did);

    bool wanted_;
    std::vector<StepAccount> steps_;
};

}  // namespace croupier::sampler::reference
