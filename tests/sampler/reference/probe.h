// One request on one row, decided by the reference.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "../row_fixture.h"
#include "sampler/reference/decide.h"

namespace croupier::sampler::test {

using Ids = std::vector<std::int32_t>;
using Probabilities = std::map<std::int32_t, double>;

struct Probe {
    std::vector<float> logits;
    RowShape shape;
    proto::SamplingParams params;
    Request request;

    explicit Probe(std::vector<float> row);
    static Probe of_probabilities(const std::vector<double>& probabilities);
    Probe(const Probe& other);
    Probe& operator=(const Probe&) = delete;

    reference::Outcome decide() const;  // with the support
    proto::Decision decision() const { return decide().decision; }
    Probabilities support() const;
    Ids kept() const;  // in the support's order
};

// To six digits, as llama.cpp publishes its own.
void check_support(const Probe& probe, const Probabilities& expected);

// The order of a request's own.
proto::StepOrder order_with(std::initializer_list<proto::Step> steps);

}  // namespace croupier::sampler::test
