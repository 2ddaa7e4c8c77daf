// The logits of steps of a session: sent by a real writer, on the host or on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "measurement/laid_rows.h"

namespace croupier::bench {

class StepLogits {
  public:
    StepLogits(const measurement::LaidRows& rows, std::uint32_t columns) : rows_(rows), columns_(columns) {}
    StepLogits(const StepLogits&) = delete;
    StepLogits& operator=(const StepLogits&) = delete;
    virtual ~StepLogits() = default;

    // Sends the logits of a step that was submitted.
    virtual void send(std::uint64_t step) = 0;
    // Of the step sent last, which was decided: microseconds from its logits to its tokens.
    virtual double us() = 0;
    // Its tokens as they arrived beside the logits; empty: they do not go there.
    virtual std::vector<std::int32_t> tokens() = 0;

    // Which row a column has in a step: another one in each.
    std::uint32_t row_of(std::uint64_t step, std::uint32_t column) const {
        return (first_row(step) + column) % rows_.count();
    }

  protected:
    std::uint32_t first_row(std::uint64_t step) const {
        constexpr std::uint64_t kShift = 7;
        return static_cast<std::uint32_t>(step * kShift % rows_.count());
    }
    const measurement::LaidRows& rows() const { return rows_; }
    std::uint32_t columns() const { return columns_; }

  private:
    const measurement::LaidRows& rows_;
    std::uint32_t columns_;
};

// `rows`: of one rank, each by itself. Throw std::runtime_error.
std::unique_ptr<StepLogits> host_logits(const std::string& segment_path, const measurement::LaidRows& rows,
                                        std::uint32_t columns);
std::unique_ptr<StepLogits> cuda_logits(const std::string& segment_path, const measurement::LaidRows& rows,
                                        std::uint32_t columns);

}  // namespace croupier::bench
