#include "tools/plan/step_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace croupier::tools {
namespace {

// Steps with a larger relative error get less weight, because some runs are disturbed.
constexpr double kUsualError = 0.1;
constexpr int kRounds = 5;
constexpr int kMostSweeps = 50'000;
constexpr double kSettled = 1e-12;

// In shorter stages samplers hardly sleep.
constexpr double kShortestStageMs = 1.0;

double shortest_stage_of(std::span<const TimedWork> steps) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const TimedWork& each : steps) shortest = std::min(shortest, each.work.stage_ms);
    return std::max(shortest, kShortestStageMs);
}

// Minimises |A x - b| for x >= 0 by coordinate descent, given A'A and A'b.
template <std::size_t Parts>
std::array<double, Parts> least_squares(const std::array<std::array<double, Parts>, Parts>& products,
                                        const std::array<double, Parts>& sums) {
    std::array<double, Parts> x{};
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
        double moved = 0.0;
        for (std::size_t i = 0; i < Parts; ++i) {
            if (products[i][i] <= 0.0) continue;
            const double others = std::inner_product(x.begin(), x.end(), products[i].begin(), 0.0);
            const double next = std::max(0.0, x[i] + (sums[i] - others) / products[i][i]);
            moved += (next - x[i]) * (next - x[i]) * products[i][i];
            x[i] = next;
        }
        if (moved < kSettled) break;
    }
    return x;
}

}  // namespace

StepCost::Parts StepCost::parts_of(const StepWork& work) const {
    const double columns = work.columns;
    // Scaled to values near one, for numerical accuracy.
    const double row = columns * work.vocab * 1e-5;
    const double step = double(work.vocab) * work.batch * 1e-7;
    // The slowest of k samplers is later than a typical one by about log k; memory contention grows
    // similarly.
    const double contention = std::log2(static_cast<double>(work.samplers));
    // Stage length relative to the shortest one, in octaves. If all stages are equal, these terms stay zero.
    const double rest = std::log2(std::max(work.stage_ms, shortest_stage_ms_) / shortest_stage_ms_);
    return {1.0,                      // starting a step: wake-up, bell, first reads
            columns,                  // work except reading: parameters, penalties, draw, commit
            columns * contention,     // the same, for the slowest of several samplers
            row,                      // reading a row's logits from a cache
            row * contention,         //
            row * step,               // the share of a row outside the caches grows with the step's size
            row * step * contention,  //
            rest,                     // after a longer sleep a core wakes more slowly,
            columns * rest,           // caches of parameters, penalties and translations are colder,
            row * rest,               // as is the memory of the rows,
            row * step * rest,        // and less of the rows is in any cache
            row / work.tp};  // reading the last rank's slice; the others are read while waiting for it
}

StepCost::StepCost(std::span<const TimedWork> steps) : shortest_stage_ms_(shortest_stage_of(steps)) {
    const auto several_tp = std::any_of(steps.begin(), steps.end(), [&](const TimedWork& each) {
        return each.work.tp != steps.front().work.tp;
    });
    std::vector<Parts> rows;
    for (const TimedWork& each : steps) {
        Parts row = parts_of(each.work);
        // One number of ranks does not show the cost of others.
        if (!several_tp) row.back() = 0.0;
        for (double& part : row) part /= std::max(each.us, 1e-3);
        rows.push_back(row);
    }
    std::vector<double> weights(rows.size(), 1.0);
    for (int round = 0; round < kRounds; ++round) {
        std::array<Parts, kParts> products{};
        Parts sums{};
        for (std::size_t step = 0; step < rows.size(); ++step) {
            for (std::size_t i = 0; i < kParts; ++i) {
                sums[i] += weights[step] * rows[step][i];
                for (std::size_t j = 0; j < kParts; ++j)
                    products[i][j] += weights[step] * rows[step][i] * rows[step][j];
            }
        }
        us_ = least_squares(products, sums);
        for (std::size_t step = 0; step < rows.size(); ++step) {
            const double error = std::inner_product(us_.begin(), us_.end(), rows[step].begin(), -1.0);
            weights[step] = 1.0 / std::sqrt(1.0 + std::pow(error / kUsualError, 2));
        }
    }
}

double StepCost::step_us(const StepWork& work) const {
    const Parts parts = parts_of(work);
    return std::inner_product(us_.begin(), us_.end(), parts.begin(), 0.0);
}

double StepCost::column_us(const StepWork& work) const {
    StepWork start = work;
    start.columns = 0.0;
    return (step_us(work) - step_us(start)) / std::max(work.columns, 1e-6);
}

}  // namespace croupier::tools
