#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "bench/head/jobs.h"
#include "bench/head/reference.h"

namespace croupier::head {

bool JobContext::is_dead(const char* variant) const {
    return std::find(dead_variants.begin(), dead_variants.end(), variant) != dead_variants.end();
}

void JobContext::report(bool is_right, const std::string& what) {
    std::printf("%s %s\n", is_right ? "ok  " : "FAIL", what.c_str());
    (void)std::fflush(stdout);
    if (!is_right) ++progress.failed_checks;
}

void JobContext::record(const std::string& line) const {
    if (!records.empty()) std::ofstream(records, std::ios::app) << line << "\n";
}

std::string Problem::name() const {
    return std::string(name_of(dtype)) + " V=" + std::to_string(entries) + " d=" + std::to_string(elements) +
           (lead > 0 ? " lead=" + std::to_string(lead) : "");
}

Matrices::Matrices(const Problem& of, std::uint32_t columns, std::uint32_t heads)
    : problem(of),
      most_columns(columns),
      heads_(heads * head_bytes() / 2),
      hidden_(std::uint64_t{columns} * 2 * of.elements),
      scales_(std::uint64_t{columns} * 2) {
    constexpr float kLogits = 3.0F;
    const float deviation = kLogits / std::sqrt(static_cast<float>(of.elements));
    fill_random(heads_.get(), heads_.count(), of.dtype, of.elements + of.entries, deviation, nullptr);
    fill_random(hidden_.get(), hidden_.count() / 2, of.dtype, 7, 1.0F, nullptr);
    check(cudaMemcpy(hidden_at(columns), hidden_.get(), hidden_.bytes() / 2, cudaMemcpyDeviceToDevice),
          "filling");
    std::vector<HeadSums> scales(scales_.count());
    for (std::uint32_t i = 0; i < scales.size(); ++i) {
        constexpr float kLog2E = 1.44269504F;
        scales[i] = {kLog2E, kLog2E * (0.5F + static_cast<float>(i % columns % 7) * 0.25F)};
    }
    check(cudaMemcpy(scales_.get(), scales.data(), scales_.bytes(), cudaMemcpyHostToDevice),
          "copying scales");
}

Outcome Matrices::make_outcome() const {
    return {GpuArray<std::uint32_t>(std::uint64_t{most_columns} * blocks()),
            GpuArray<HeadSums>(std::uint64_t{most_columns} * blocks()),
            GpuArray<std::uint16_t>(most_columns * logits_stride())};
}

void Matrices::poison(Outcome& outcome) {
    constexpr int kPoison = 0xA5;
    outcome.best.fill(kPoison);
    outcome.sums.fill(kPoison);
    outcome.logits.fill(kPoison);
}

HeadCall Matrices::call(std::uint32_t columns, std::uint32_t turned, Outcome& outcome, std::uint32_t head) {
    HeadCall call;
    call.dtype = problem.dtype;
    call.hidden = hidden_at(turned);
    call.head = head_at(head);
    call.columns = columns;
    call.elements = problem.elements;
    call.entries = problem.entries;
    call.lead = problem.lead;
    call.best = outcome.best.get();
    call.sums = outcome.sums.get();
    call.scales = scales_.get() + turned;
    call.block_stride = blocks();
    call.logits = outcome.logits.get();
    call.logits_stride = logits_stride();
    return call;
}

}  // namespace croupier::head
