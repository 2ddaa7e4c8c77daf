// The definition of a decision, written in the most literal way: whole vectors, full sorts, one loop a rule.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/decide.h"

namespace croupier::sampler::test {

// `logits` by token id; `order`: position in vocabulary order -> token. The request must be valid and the
// logits free of NaN and +inf.
proto::Decision oracle_decision(const std::vector<float>& logits, const std::vector<std::int32_t>& order,
                                const Request& request);

struct Weighted {
    double logit;
    std::int32_t token;
    double weight;
};

// All tokens that survive every filter, in canonical order; without filters, all that are not -inf.
std::vector<Weighted> oracle_survivors(const std::vector<double>& adjusted,
                                       const proto::SamplingParams& params);

// Logits by token id after steps 1 to 8.
std::vector<double> oracle_adjusted(const std::vector<float>& logits, const Request& request);

}  // namespace croupier::sampler::test
