// Whether two ways to decide gave the same answer.
#pragma once

#include <string>

#include "sampler/decide.h"
#include "sampler/reference/decide.h"

namespace croupier::sampler::test {

enum class Logprobs {
    within_error,  // of a total that was summed in float: sampler/row_mass.h
    bit_for_bit,
};

// The fast path's decision with a copy of what lies beside it in the workspace.
reference::Outcome outcome_of(const proto::Decision& decision, const Answer& answer);

// The first thing that differs, in a few words; empty when all agrees.
std::string difference(const reference::Outcome& ours, const reference::Outcome& expected, Logprobs judged);

}  // namespace croupier::sampler::test
