#include "tools/plan/step_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "tools/plan/step_spans.h"

namespace croupier::tools {
namespace {

// Vocabularies that differ by less have the same cost.
constexpr double kSameVocabulary = 0.01;

// Sum of the absolute log-ratios of all four numbers.
double distance(const MeasuredStep& step, const Setting& setting, std::uint32_t samplers) {
    const auto times = [](double a, double b) { return std::abs(std::log2(a / b)); };
    return times(step.setting.vocab, setting.vocab) + times(step.setting.batch, setting.batch) +
           times(step.setting.tp, setting.tp) + times(step.samplers, samplers);
}

// The busiest sampler's work, in typical columns.
double busiest_share(const ColumnTimes& columns, std::uint32_t batch, std::uint32_t samplers) {
    const double usual_us = columns.usual_us();
    if (usual_us <= 0.0) return std::ceil(double(batch) / samplers);
    return median_of(step_spans(columns, batch, samplers)) / usual_us;
}

std::vector<MeasuredStep> steps_of(const std::vector<MeasuredStep>& measured, const Requests& requests) {
    std::vector<MeasuredStep> steps;
    std::set<std::string> others;
    for (const MeasuredStep& step : measured) {
        if (step.setting.requests == requests) {
            steps.push_back(step);
        } else {
            others.insert(step.setting.requests.text());
        }
    }
    if (!steps.empty()) return steps;
    std::string text = "there is no measurement for: " + requests.text() + "; measured:";
    for (const std::string& other : others) text += "\n  " + other;
    throw std::runtime_error(text + (others.empty() ? " nothing" : "") +
                             "\nmeasure it with `croupier plan measure " + requests.options() +
                             " --save FILE`");
}

StepCost cost_of(const std::vector<MeasuredStep>& steps) {
    std::vector<TimedWork> timed;
    timed.reserve(steps.size());
    for (const MeasuredStep& step : steps) {
        const Setting& setting = step.setting;
        const double share = busiest_share(step.columns, setting.batch, step.samplers);
        timed.push_back({{share, setting.vocab, setting.batch, setting.tp, step.samplers, setting.stage_ms},
                         step.p50_us});
    }
    return StepCost(timed);
}

}  // namespace

std::string Requests::text() const {
    return fmt::format("mix {}, {} {}{}, wait {}", mix, dtype, transport, summaries ? " with summaries" : "",
                       wait);
}

std::string Requests::options() const {
    const Requests usual;
    std::string text = "--mix " + mix;
    if (dtype != usual.dtype) text += " --dtype " + dtype;
    if (transport != usual.transport) text += " --transport " + transport;
    if (wait != usual.wait) text += " --wait " + wait;
    return text + (summaries ? " --summaries" : "");
}

StepModel::StepModel(const std::vector<MeasuredStep>& measured, const Setting& setting)
    : setting_(setting),
      near_(setting),
      steps_(steps_of(measured, setting.requests)),
      cost_(cost_of(steps_)) {
    check_vocabulary();
    near_.batch = nearest_measured("batch", setting.batch, &Setting::batch);
    near_.tp = nearest_measured("ranks", setting.tp, &Setting::tp);
    near_.stage_ms = nearest_measured("stage in ms", setting.stage_ms, &Setting::stage_ms);
}

void StepModel::check_vocabulary() const {
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    for (const MeasuredStep& each : steps_) {
        least = std::min(least, each.setting.vocab);
        most = std::max(most, each.setting.vocab);
    }
    if (setting_.vocab >= least * (1.0 - kSameVocabulary) && setting_.vocab <= most * (1.0 + kSameVocabulary))
        return;
    throw std::runtime_error(fmt::format(
        "the requested vocabulary of {} differs from the measured {}, and costs depend on it; measure both "
        "with `croupier plan measure {} --vocab {},{} --save FILE`",
        setting_.vocab, least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
        setting_.requests.options(), setting_.vocab < least ? setting_.vocab : least,
        setting_.vocab < least ? most : setting_.vocab));
}

template <typename Number>
Number StepModel::nearest_measured(const char* what, Number asked, Number Setting::*field) {
    Number least = steps_.front().setting.*field;
    Number most = least;
    for (const MeasuredStep& each : steps_) {
        least = std::min(least, each.setting.*field);
        most = std::max(most, each.setting.*field);
    }
    const Number taken = std::clamp(asked, least, most);
    if (taken != asked) {
        notes_.push_back(
            fmt::format("{}: {} requested; the cost of a column is that of {}, the nearest measured value",
                        what, asked, taken));
    }
    return taken;
}

Prediction StepModel::predict(std::uint32_t samplers) const {
    const MeasuredStep& like =
        *std::min_element(steps_.begin(), steps_.end(), [&](const MeasuredStep& a, const MeasuredStep& b) {
            return distance(a, near_, samplers) < distance(b, near_, samplers);
        });
    const StepWork work = {busiest_share(like.columns, setting_.batch, samplers),
                           setting_.vocab,
                           near_.batch,
                           near_.tp,
                           samplers,
                           near_.stage_ms};
    Prediction prediction;
    prediction.samplers = samplers;
    prediction.p50_us = cost_.step_us(work);
    prediction.p99_us = prediction.p50_us * like.p99_us / std::max(like.p50_us, 1e-3);
    prediction.column_us = cost_.column_us(work);
    prediction.columns_us = work.columns * prediction.column_us;
    return prediction;
}

std::uint32_t StepModel::most_samplers() const {
    std::uint32_t most = 1;
    for (const MeasuredStep& each : steps_) most = std::max(most, each.samplers);
    return most;
}

std::uint64_t StepModel::sampler_bytes() const {
    std::uint64_t most = 0;
    for (const MeasuredStep& each : steps_) most = std::max(most, each.sampler_bytes);
    return most;
}

std::uint64_t StepModel::supervisor_bytes() const {
    std::uint64_t most = 0;
    for (const MeasuredStep& each : steps_) most = std::max(most, each.supervisor_bytes);
    return most;
}

}  // namespace croupier::tools
