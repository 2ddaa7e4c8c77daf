#include "tools/plan/step_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <stdexcept>

#include "tools/plan/step_spans.h"

namespace croupier::tools {
namespace {

// Rows whose vocabularies differ by less cost the same.
constexpr double kSameVocabulary = 0.01;

struct Coordinate {
    std::function<double(const MeasuredStep&)> of;
    double at;
};

std::array<Coordinate, 4> coordinates_of(const Setting& setting, std::uint32_t samplers) {
    // Twice the batch, not a column more, is what may change a column's cost: where its rows lie.
    return {
        {{[](const MeasuredStep& step) { return double(step.setting.vocab); }, double(setting.vocab)},
         {[](const MeasuredStep& step) { return double(step.setting.tp); }, double(setting.tp)},
         {[](const MeasuredStep& step) { return std::log2(step.setting.batch); }, std::log2(setting.batch)},
         {[](const MeasuredStep& step) { return double(step.samplers); }, double(samplers)}}};
}

// Linear between the nearest measured ones on either side, coordinate by coordinate; outside, the nearest.
void weigh(const std::vector<const FittedStep*>& steps, std::span<const Coordinate> coordinates,
           double weight, std::vector<WeighedStep>& into) {
    if (coordinates.empty()) {
        // What was measured more than once counts alike.
        for (const FittedStep* step : steps)
            into.push_back({step, weight / static_cast<double>(steps.size())});
        return;
    }
    const Coordinate& coordinate = coordinates.front();
    std::set<double> places;
    for (const FittedStep* each : steps) places.insert(coordinate.of(each->step));
    const double at = std::clamp(coordinate.at, *places.begin(), *places.rbegin());
    const double above = *places.lower_bound(at);
    const double below = *std::prev(places.upper_bound(at));
    const double share = above > below ? (at - below) / (above - below) : 0.0;
    for (const auto& [place, part] : {std::pair{below, 1.0 - share}, std::pair{above, share}}) {
        if (part <= 0.0) continue;
        std::vector<const FittedStep*> there;
        for (const FittedStep* each : steps) {
            if (coordinate.of(each->step) == place) there.push_back(each);
        }
        weigh(there, coordinates.subspan(1), weight * part, into);
    }
}

std::vector<WeighedStep> around(const std::vector<FittedStep>& fitted, const Setting& setting,
                                std::uint32_t samplers) {
    std::vector<const FittedStep*> all;
    for (const FittedStep& each : fitted) all.push_back(&each);
    const auto coordinates = coordinates_of(setting, samplers);
    std::vector<WeighedStep> weighed;
    weigh(all, coordinates, 1.0, weighed);
    return weighed;
}

template <typename Value>
double mean_of(const std::vector<WeighedStep>& weighed, Value&& value) {
    double sum = 0.0;
    for (const WeighedStep& each : weighed) sum += each.weight * value(*each.fitted);
    return sum;
}

FittedStep fit(const MeasuredStep& step) {
    const double played = median_of(step_spans(step.columns, step.setting.batch, step.samplers));
    return {step, played > 0.0 ? step.p50_us / played : 1.0};
}

}  // namespace

std::string Requests::text() const {
    return fmt::format("mix {}, {} {}{}, wait {}", mix, dtype, transport, summaries ? " with summaries" : "",
                       wait);
}

StepModel::StepModel(const std::vector<MeasuredStep>& measured, const Setting& setting) : setting_(setting) {
    std::set<std::string> others;
    for (const MeasuredStep& step : measured) {
        if (step.setting.requests == setting.requests) {
            fitted_.push_back(fit(step));
        } else {
            others.insert(step.setting.requests.text());
        }
    }
    if (fitted_.empty()) {
        std::string text = "nothing is measured of: " + setting.requests.text() + "; there is:";
        for (const std::string& other : others) text += "\n  " + other;
        throw std::runtime_error(text + (others.empty() ? " nothing" : "") +
                                 "\n`croupier plan measure` measures more");
    }
    check_vocabulary();
    note_outside("the batch", setting.batch, &Setting::batch);
    note_outside("ranks", setting.tp, &Setting::tp);
}

void StepModel::check_vocabulary() const {
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    for (const FittedStep& each : fitted_) {
        least = std::min(least, each.step.setting.vocab);
        most = std::max(most, each.step.setting.vocab);
    }
    if (setting_.vocab >= least * (1.0 - kSameVocabulary) && setting_.vocab <= most * (1.0 + kSameVocabulary))
        return;
    throw std::runtime_error(fmt::format(
        "a vocabulary of {} is asked for, and {} is measured: a row's cost is its own vocabulary's; measure "
        "it "
        "with `croupier plan measure --vocab {}`",
        setting_.vocab, least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
        setting_.vocab));
}

void StepModel::note_outside(const char* what, std::uint32_t asked, std::uint32_t Setting::*field) {
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    for (const FittedStep& each : fitted_) {
        least = std::min(least, each.step.setting.*field);
        most = std::max(most, each.step.setting.*field);
    }
    if (asked >= least && asked <= most) return;
    const std::uint32_t taken = std::clamp(asked, least, most);
    notes_.push_back(fmt::format("{} asked for: {}; a column's cost is that of {}, the nearest measured",
                                 what, asked, taken));
}

Prediction StepModel::predict(std::uint32_t samplers) const {
    const auto weighed = around(fitted_, setting_, samplers);
    const auto nearest = std::max_element(weighed.begin(), weighed.end(),
                                          [](const auto& a, const auto& b) { return a.weight < b.weight; });
    ColumnTimes columns = nearest->fitted->step.columns;
    columns.mean_us = mean_of(weighed, [](const FittedStep& each) { return each.step.columns.mean_us; });
    Prediction prediction;
    prediction.samplers = samplers;
    prediction.column_us = columns.mean_us;
    prediction.beyond = mean_of(weighed, [](const FittedStep& each) { return each.beyond; });
    prediction.p50_us = prediction.beyond * median_of(step_spans(columns, setting_.batch, samplers));
    prediction.p99_us = prediction.p50_us * mean_of(weighed, [](const FittedStep& each) {
                            return each.step.p99_us / std::max(each.step.p50_us, 1e-3);
                        });
    return prediction;
}

std::uint32_t StepModel::most_samplers() const {
    std::uint32_t most = 1;
    for (const FittedStep& each : fitted_) most = std::max(most, each.step.samplers);
    return most;
}

std::uint64_t StepModel::sampler_bytes() const {
    std::uint64_t most = 0;
    for (const FittedStep& each : fitted_) most = std::max(most, each.step.sampler_bytes);
    return most;
}

std::uint64_t StepModel::supervisor_bytes() const {
    std::uint64_t most = 0;
    for (const FittedStep& each : fitted_) most = std::max(most, each.step.supervisor_bytes);
    return most;
}

}  // namespace croupier::tools
