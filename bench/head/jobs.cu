#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "bench/head/jobs.h"
#include "bench/head/reference.h"

namespace croupier::gpu_writer::head {

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

cudaError_t launch_again(const HeadProduct& product, const AskedBlock* asked, std::uint32_t count,
                         std::uint16_t* logits) {
    const AgainWork work{static_cast<const std::uint16_t*>(product.weight),
                         product.weight_stride,
                         static_cast<const std::uint16_t*>(product.hidden),
                         product.hidden_stride,
                         product.elements,
                         product.entries,
                         product.lead,
                         asked,
                         logits};
    return launch_blocks_again(product.dtype, work, count, nullptr);
}

Matrices::Matrices(const Problem& of, std::uint32_t columns, std::uint32_t heads)
    : problem(of),
      most_columns(columns),
      heads_(heads * head_bytes() / 2),
      hidden_(std::uint64_t{columns} * 2 * of.elements),
      wants_(std::uint64_t{columns} * 2) {
    constexpr float kLogits = 3.0F;
    const float deviation = kLogits / std::sqrt(static_cast<float>(of.elements));
    fill_random(heads_.get(), heads_.count(), of.dtype, of.elements + of.entries, deviation, nullptr);
    fill_random(hidden_.get(), hidden_.count() / 2, of.dtype, 7, 1.0F, nullptr);
    check(cudaMemcpy(hidden_at(columns), hidden_.get(), hidden_.bytes() / 2, cudaMemcpyDeviceToDevice),
          "filling");
    std::vector<LeanWant> wants(wants_.count());
    for (std::uint32_t i = 0; i < wants.size(); ++i) {
        wants[i].flags = Want::sum_at_one | Want::sum_at_scale;
        wants[i].scale = 0.5 + i % columns % 7 * 0.25;
    }
    want(wants);
}

void Matrices::want(const std::vector<LeanWant>& wants) {
    check(cudaMemcpy(wants_.get(), wants.data(), wants.size() * sizeof(wants[0]), cudaMemcpyHostToDevice),
          "copying wants");
}

Outcome Matrices::make_outcome() const {
    return {GpuArray<std::uint16_t>(std::uint64_t{most_columns} * blocks()),
            GpuArray<LeanSums>(std::uint64_t{most_columns} * blocks()),
            GpuArray<std::uint16_t>(most_columns * logits_stride()), GpuArray<std::uint32_t>(most_columns)};
}

void Matrices::poison(Outcome& outcome) {
    constexpr int kPoison = 0xA5;
    outcome.maxima.fill(kPoison);
    outcome.sums.fill(kPoison);
    outcome.logits.fill(kPoison);
    outcome.floors.fill(0);
}

HeadProduct Matrices::call(std::uint32_t columns, std::uint32_t turned, Outcome& outcome,
                           std::uint32_t head) {
    HeadProduct call;
    call.hidden_stride = call.weight_stride = problem.elements;
    call.dtype = problem.dtype;
    call.hidden = hidden_at(turned);
    call.weight = head_at(head);
    call.columns = columns;
    call.elements = problem.elements;
    call.entries = problem.entries;
    call.lead = problem.lead;
    call.maxima = outcome.maxima.get();
    call.maxima_stride = call.sums_stride = blocks();
    call.sums = outcome.sums.get();
    call.wants = wants_.get() + turned;
    call.floors = outcome.floors.get();
    call.logits = outcome.logits.get();
    call.logits_stride = logits_stride();
    return call;
}

}  // namespace croupier::gpu_writer::head
