#include "probe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace croupier::sampler::test {

Probe::Probe(std::vector<float> row) : logits(std::move(row)) {
    request.params = &params;
    request.max_length = 1000;
}

Probe::Probe(const Probe& other)
    : logits(other.logits), shape(other.shape), params(other.params), request(other.request) {
    request.params = &params;
}

Probe Probe::of_probabilities(const std::vector<double>& probabilities) {
    std::vector<float> row;
    row.reserve(probabilities.size());
    for (const double p : probabilities) row.push_back(static_cast<float>(std::log(p)));
    return Probe(row);
}

reference::Outcome Probe::decide() const {
    const RowFixture row(logits, shape);
    Request asked = request;
    asked.wants_support = true;
    return reference::decide(row.view(), asked);
}

Probabilities Probe::support() const {
    Probabilities result;
    for (const Survivor& each : decide().support) result[each.token] = each.probability;
    return result;
}

Ids Probe::kept() const {
    Ids result;
    for (const Survivor& each : decide().support) result.push_back(each.token);
    return result;
}

void check_support(const Probe& probe, const Probabilities& expected) {
    const Probabilities support = probe.support();
    REQUIRE(support.size() == expected.size());
    for (const auto& [token, probability] : expected) {
        INFO("token " << token);
        REQUIRE(support.count(token) == 1);
        CHECK(support.at(token) == Approx(probability).margin(1e-6));
    }
}

proto::StepOrder order_with(std::initializer_list<proto::Step> steps) {
    proto::StepOrder order{};
    std::copy(steps.begin(), steps.end(), order.begin());
    return order;
}

}  // namespace croupier::sampler::test
