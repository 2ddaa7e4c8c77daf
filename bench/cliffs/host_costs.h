// Measures random requests on one core: whole rows, or lean rows as the host's reference of the writer lays
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/cliffs/histories.h"
#include "bench/cliffs/request_cost.h"
#include "bench/decide/lean_rows.h"
#include "measurement/laid_rows.h"

namespace croupier::bench {

struct HostMeasure {
    bool lean = false;
    std::uint32_t rows = 8;      // of a request
    std::uint32_t rounds = 3;    // over these rows
    std::uint32_t verified = 1;  // of these rows, by the reference
};

// The engine that lean rows are measured for: a step of all columns takes the decisions' time, spread over
// the samplers, and that of the bytes over PCIe 5 (docs/performance.md).
constexpr std::uint32_t kStepColumns = 256;
constexpr std::uint32_t kStepSamplers = 14;
constexpr double kBytesPerUs = 55e3;

class HostCosts {
  public:
    // The rows and the histories must outlive this object.
    HostCosts(const measurement::BenchRows& rows, const Histories& histories, const HostMeasure& how);

    RequestCost measure(const DrawnRequest& drawn);

  private:
    // The rows in one dtype.
    struct Layout {
        measurement::LaidRows in_step;
        std::optional<measurement::LaidRows> in_memory;  // with lean rows
        std::optional<LeanRows> lean;
        double read_us = 0.0;
    };
    struct Totals;

    Layout& layout_of(proto::Dtype dtype);
    std::uint32_t row_of(const DrawnRequest& drawn, std::uint32_t i) const;
    void begin(const DrawnRequest& drawn, Layout& layout);
    void decide(const DrawnRequest& drawn, Layout& layout, std::uint32_t i, std::uint32_t draw,
                Totals& totals);
    double decide_lean(Layout& layout, std::uint32_t row, std::uint32_t i, std::uint32_t draw,
                       Totals& totals);
    void finish(const Layout& layout, Totals& totals) const;

    const measurement::BenchRows& rows_;
    const Histories& histories_;
    HostMeasure how_;
    sampler::Workspace workspace_;
    std::vector<BenchSequence> sequences_;  // one per row of a request
    std::vector<std::unique_ptr<Layout>> layouts_;
    proto::Decision decision_;
};

}  // namespace croupier::bench
