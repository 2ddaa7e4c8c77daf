#include "bench/cliffs/host_costs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "bench/cliffs/read_time.h"
#include "bench/decide/case_times.h"
#include "measurement/percentiles.h"
#include "measurement/uninterrupted.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"

namespace croupier::bench {

struct HostCosts::Totals {
    RequestCost cost;
    LeanCost lean;
    std::uint32_t decisions = 0;
    std::vector<std::uint64_t> times;
};

HostCosts::HostCosts(const measurement::BenchRows& rows, const Histories& histories, const HostMeasure& how)
    : rows_(rows), histories_(histories), how_(how), workspace_(rows.vocab()) {
    how_.rows = std::min(how.rows, rows.count());
    how_.verified = std::min(how.verified, how_.rows);
    for (std::uint32_t i = 0; i < how_.rows; ++i) sequences_.emplace_back(rows.vocab(), histories.longest());
}

HostCosts::Layout& HostCosts::layout_of(proto::Dtype dtype) {
    for (const auto& each : layouts_) {
        if (each->in_step.dtype() == dtype) return *each;
    }
    const measurement::Ranks one;
    layouts_.push_back(std::make_unique<Layout>(
        Layout{measurement::LaidRows(rows_, dtype, one, true), std::nullopt, std::nullopt}));
    Layout& made = *layouts_.back();
    if (how_.lean) {
        made.in_memory.emplace(rows_, dtype, one, false);
        made.lean.emplace(*made.in_memory, made.in_step);
    }
    made.read_us = read_time_us(made.in_step);
    return made;
}

// Requests that follow one another have different rows.
std::uint32_t HostCosts::row_of(const DrawnRequest& drawn, std::uint32_t i) const {
    return static_cast<std::uint32_t>((std::uint64_t{drawn.number} * how_.rows + i) % rows_.count());
}

// All lean rows are written first, as by a writer on another core.
void HostCosts::begin(const DrawnRequest& drawn, Layout& layout) {
    for (std::uint32_t i = 0; i < how_.rows; ++i) {
        sequences_[i].begin(drawn.request, histories_.of(drawn, i));
        if (!how_.lean) continue;
        layout.lean->lay(row_of(drawn, i), sequences_[i].want(i), sequences_[i].masks(),
                         sequences_[i].names());
    }
}

double HostCosts::decide_lean(Layout& layout, std::uint32_t row, std::uint32_t i, std::uint32_t draw,
                              Totals& totals) {
    LeanRows& lean = *layout.lean;
    const gpu_writer::LeanWant want = sequences_[i].want(draw);
    lean.forget_granted(want);
    double all = 0.0;
    std::uint32_t asked = 0;
    do {
        all += measurement::running_us(
            [&] { decision_ = sequences_[i].decide(lean.view(row), draw, workspace_); });
        totals.lean.tries += 1.0;
        asked += lean.grant(workspace_.answer().missing);
    } while (!workspace_.answer().missing.empty());
    totals.lean.blocks_asked += asked;
    totals.lean.blocks_sent += lean.sent(row);
    totals.lean.bytes += static_cast<double>(lean.bytes_sent(row, want) + asked * lean.block_bytes());
    totals.lean.whole += want.flags.has(gpu_writer::Want::whole) ? 1.0 : 0.0;
    return all;
}

void HostCosts::decide(const DrawnRequest& drawn, Layout& layout, std::uint32_t i, std::uint32_t draw,
                       Totals& totals) {
    const std::uint32_t row = row_of(drawn, i);
    const sampler::Request request = sequences_[i].request(draw);
    const sampler::RowView whole = layout.in_step.view(row, false);
    const double took = how_.lean ? decide_lean(layout, row, i, draw, totals) : measurement::running_us([&] {
        decision_ = sequences_[i].decide(whole, draw, workspace_);
    });
    sequences_[i].rewind();
    totals.times.push_back(static_cast<std::uint64_t>(took * 1e3));
    ++totals.cost.paths[path_of(workspace_.answer())];
    const bool first_round = totals.decisions++ < how_.rows;
    if (!first_round || i >= how_.verified) return;
    ++totals.cost.verified;
    const std::string difference = sampler::test::difference(
        sampler::test::outcome_of(decision_, workspace_.answer()), sampler::reference::decide(whole, request),
        sampler::test::Logprobs::within_error);
    if (difference.empty() || !totals.cost.difference.empty()) return;
    totals.cost.difference = fmt::format("row {}: {} of the reference", row, difference);
}

void HostCosts::finish(const Layout& layout, Totals& totals) const {
    RequestCost& cost = totals.cost;
    cost.decision_us = cost.us = measurement::percentiles_us(std::move(totals.times)).p50;
    cost.reads = cost.decision_us / layout.read_us;
    if (!how_.lean) return;
    for (double* const total : {&totals.lean.bytes, &totals.lean.blocks_sent, &totals.lean.blocks_asked,
                                &totals.lean.tries, &totals.lean.whole}) {
        *total /= totals.decisions;
    }
    cost.lean = totals.lean;
    cost.us = kStepColumns * (cost.decision_us / kStepSamplers + cost.lean->bytes / kBytesPerUs);
}

RequestCost HostCosts::measure(const DrawnRequest& drawn) {
    Layout& layout = layout_of(drawn.dtype);
    begin(drawn, layout);
    Totals totals;
    for (std::uint32_t round = 0; round < how_.rounds; ++round) {
        for (std::uint32_t i = 0; i < how_.rows; ++i)
            decide(drawn, layout, i, how_.lean ? i : round * how_.rows + i, totals);
    }
    finish(layout, totals);
    return totals.cost;
}

}  // namespace croupier::bench
