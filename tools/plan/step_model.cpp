#include "tools/plan/step_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
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

std::vector<Coordinate> coordinates_of(const Setting& setting, std::uint32_t samplers) {
    return {{[](const MeasuredStep& step) { return step.setting.vocab; }, double(setting.vocab)},
            {[](const MeasuredStep& step) { return step.setting.tp; }, double(setting.tp)},
            {[](const MeasuredStep& step) { return step.samplers; }, double(samplers)}};
}

// Twice the batch, not a column more, is what may change a column's cost: where its rows lie.
Coordinate batch_coordinate(const Setting& setting) {
    return {[](const MeasuredStep& step) { return std::log2(step.setting.batch); }, std::log2(setting.batch)};
}

using Steps = std::vector<const PlayedStep*>;

struct Corner {
    Steps steps;  // that were measured there
    double weight;
};

// Linear between the nearest measured ones on either side, coordinate by coordinate; outside, the nearest.
void weigh(const Steps& steps, std::span<const Coordinate> coordinates, double weight,
           std::vector<Corner>& into) {
    if (coordinates.empty()) {
        into.push_back({steps, weight});
        return;
    }
    const Coordinate& coordinate = coordinates.front();
    std::set<double> places;
    for (const PlayedStep* each : steps) places.insert(coordinate.of(each->step));
    const double at = std::clamp(coordinate.at, *places.begin(), *places.rbegin());
    const double above = *places.lower_bound(at);
    const double below = *std::prev(places.upper_bound(at));
    const double share = above > below ? (at - below) / (above - below) : 0.0;
    for (const auto& [place, part] : {std::pair{below, 1.0 - share}, std::pair{above, share}}) {
        if (part <= 0.0) continue;
        Steps there;
        for (const PlayedStep* each : steps) {
            if (coordinate.of(each->step) == place) there.push_back(each);
        }
        weigh(there, coordinates.subspan(1), weight * part, into);
    }
}

// What was measured more than once counts alike.
template <typename Value>
double mean_of(const std::vector<Corner>& corners, Value&& value) {
    double sum = 0.0;
    for (const Corner& corner : corners) {
        for (const PlayedStep* each : corner.steps)
            sum += corner.weight * value(each->step) / static_cast<double>(corner.steps.size());
    }
    return sum;
}

const PlayedStep& nearest_of(const std::vector<Corner>& corners) {
    const auto lighter = [](const Corner& a, const Corner& b) { return a.weight < b.weight; };
    return *std::max_element(corners.begin(), corners.end(), lighter)->steps.front();
}

// What a step takes for what its columns alone take, from the batches that so many samplers decided: one is a
// start and a pace. Nobody knows the pace beyond the largest: it is the last one's, within reason.
double step_us(const Steps& steps, double played_us) {
    constexpr double kSlowest = 1.5;
    constexpr double kFastest = 0.75;
    std::map<double, double> curve;
    for (const PlayedStep* each : steps) curve[each->played_us] = each->step.p50_us;
    const auto above = curve.lower_bound(played_us);
    if (curve.size() == 1) {
        const auto [played, measured] = *curve.begin();
        return played_us + (measured - played) * std::min(1.0, played_us / std::max(played, 1e-3));
    }
    if (above == curve.begin()) return std::max(played_us / 2, played_us + above->second - above->first);
    const auto high = above == curve.end() ? std::prev(above) : above;
    const auto low = std::prev(high);
    double pace = (high->second - low->second) / (high->first - low->first);
    if (above == curve.end()) pace = std::clamp(pace, kFastest, kSlowest);
    return high->second + (played_us - high->first) * pace;
}

double played_of(const MeasuredStep& step) {
    return median_of(step_spans(step.columns, step.setting.batch, step.samplers));
}

bool alike(const MeasuredStep& a, const MeasuredStep& b) {
    return a.setting.vocab == b.setting.vocab && a.setting.tp == b.setting.tp && a.samplers == b.samplers;
}

// The columns' factor by the largest step that so many samplers took, less what a small one shows to be the
// start.
double factor_of(const std::vector<PlayedStep>& all, const MeasuredStep& step) {
    const PlayedStep* small = nullptr;
    const PlayedStep* large = nullptr;
    for (const PlayedStep& each : all) {
        if (!alike(each.step, step)) continue;
        if (small == nullptr || each.played_us < small->played_us) small = &each;
        if (large == nullptr || each.played_us > large->played_us) large = &each;
    }
    if (large->played_us <= 0.0) return 1.0;
    const double whole = large->step.p50_us / large->played_us;
    if (large->played_us < 2.0 * small->played_us) return whole;
    const double slope = (large->step.p50_us - small->step.p50_us) / (large->played_us - small->played_us);
    return std::clamp(slope, whole / 2, whole * 1.5);
}

void fit(std::vector<PlayedStep>& all) {
    std::vector<double> factors;
    factors.reserve(all.size());
    for (const PlayedStep& each : all) factors.push_back(factor_of(all, each.step));
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].step.columns.factor = factors[i];
        all[i].played_us = played_of(all[i].step);
    }
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
            played_.push_back({step, played_of(step)});
        } else {
            others.insert(step.setting.requests.text());
        }
    }
    if (played_.empty()) {
        std::string text = "nothing is measured of: " + setting.requests.text() + "; there is:";
        for (const std::string& other : others) text += "\n  " + other;
        throw std::runtime_error(text + (others.empty() ? " nothing" : "") +
                                 "\n`croupier plan measure` measures more");
    }
    fit(played_);
    check_vocabulary();
    note_outside("the batch", setting.batch, &Setting::batch);
    note_outside("ranks", setting.tp, &Setting::tp);
}

void StepModel::check_vocabulary() const {
    std::uint32_t least = UINT32_MAX;
    std::uint32_t most = 0;
    for (const PlayedStep& each : played_) {
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
    for (const PlayedStep& each : played_) {
        least = std::min(least, each.step.setting.*field);
        most = std::max(most, each.step.setting.*field);
    }
    if (asked >= least && asked <= most) return;
    const std::uint32_t taken = std::clamp(asked, least, most);
    notes_.push_back(fmt::format("{} asked for: {}; a column's cost is that of {}, the nearest measured",
                                 what, asked, taken));
}

Prediction StepModel::predict(std::uint32_t samplers) const {
    Steps all;
    for (const PlayedStep& each : played_) all.push_back(&each);
    std::vector<Coordinate> coordinates = coordinates_of(setting_, samplers);
    std::vector<Corner> curves;
    weigh(all, coordinates, 1.0, curves);
    coordinates.push_back(batch_coordinate(setting_));
    std::vector<Corner> corners;
    weigh(all, coordinates, 1.0, corners);

    ColumnTimes columns = nearest_of(corners).step.columns;
    columns.mean_us = mean_of(corners, [](const MeasuredStep& step) { return step.columns.mean_us; });
    const double usual_us =
        mean_of(corners, [](const MeasuredStep& step) { return step.columns.usual_us(); });
    columns.factor *= usual_us / std::max(columns.usual_us(), 1e-3);
    Prediction prediction;
    prediction.samplers = samplers;
    prediction.column_us = usual_us;
    prediction.played_us = median_of(step_spans(columns, setting_.batch, samplers));
    for (const Corner& curve : curves)
        prediction.p50_us += curve.weight * step_us(curve.steps, prediction.played_us);
    prediction.p99_us = prediction.p50_us * mean_of(corners, [](const MeasuredStep& step) {
                            return step.p99_us / std::max(step.p50_us, 1e-3);
                        });
    return prediction;
}

std::uint32_t StepModel::most_samplers() const {
    std::uint32_t most = 1;
    for (const PlayedStep& each : played_) most = std::max(most, each.step.samplers);
    return most;
}

std::uint64_t StepModel::sampler_bytes() const {
    std::uint64_t most = 0;
    for (const PlayedStep& each : played_) most = std::max(most, each.step.sampler_bytes);
    return most;
}

std::uint64_t StepModel::supervisor_bytes() const {
    std::uint64_t most = 0;
    for (const PlayedStep& each : played_) most = std::max(most, each.step.supervisor_bytes);
    return most;
}

}  // namespace croupier::tools
