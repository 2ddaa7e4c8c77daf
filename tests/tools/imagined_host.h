// An imaginary host whose times follow known rules, and its measurement, for tests of plans.
#pragma once

#include <cmath>
#include <cstdint>

#include "tools/plan/measurement.h"
#include "tools/plan/step_spans.h"

namespace croupier::tools {

inline constexpr double kStartUs = 60.0;

// Most columns cost nearly the same, a few twice that.
inline ColumnTimes columns_of_a_host() {
    ColumnTimes columns;
    columns.buckets[7] = 90;
    columns.buckets[8] = 10;
    columns.mean_us = columns.usual_us();
    return columns;
}

// The cost of a row grows with the vocabulary, the number of samplers, and the size of a step.
inline double column_us(std::uint32_t vocab, std::uint32_t batch, std::uint32_t samplers) {
    const double row_us = 3e-4 * vocab * (1.0 + 1e-8 * vocab * batch);
    return (4.0 + row_us) * (1.0 + 0.1 * std::log2(samplers));
}

inline MeasuredStep step_of(std::uint32_t vocab, std::uint32_t batch, std::uint32_t samplers) {
    MeasuredStep step;
    step.setting.vocab = vocab;
    step.setting.batch = batch;
    step.samplers = samplers;
    step.steps = 100;
    step.columns = columns_of_a_host();
    const double share = median_of(step_spans(step.columns, batch, samplers)) / step.columns.usual_us();
    step.p50_us = kStartUs + share * column_us(vocab, batch, samplers);
    step.p99_us = 2.0 * step.p50_us;
    step.sampler_bytes = 30U << 20U;
    step.supervisor_bytes = 4U << 20U;
    return step;
}

inline Measurement imagined() {
    Measurement measurement;
    measurement.host = {"an imagined one", 16};
    for (const std::uint32_t vocab : {32000U, 151936U}) {
        for (const std::uint32_t batch : {16U, 256U}) {
            for (const std::uint32_t samplers : {1U, 4U, 14U})
                measurement.steps.push_back(step_of(vocab, batch, samplers));
        }
    }
    return measurement;
}

inline Setting setting_of(std::uint32_t vocab, std::uint32_t batch) {
    Setting setting;
    setting.vocab = vocab;
    setting.batch = batch;
    return setting;
}

}  // namespace croupier::tools
