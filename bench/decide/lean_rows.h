// The benchmarks' rows as a lean step has them: what a writer would have sent of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu_writer/lean_layout.h"
#include "measurement/laid_rows.h"

namespace croupier::bench {

class LeanRows {
  public:
    // Of one rank. `in_memory` has the writer's rows, one after the other; `rows` has the same rows as blocks
    // that a sampler asks for stand in the slice. Both must outlive this object.
    LeanRows(const measurement::LaidRows& in_memory, const measurement::LaidRows& rows);

    // What is sent of the row, under this mask and with these named ids if the want has some.
    void lay(std::uint32_t row, const gpu_writer::LeanWant& want, const gpu_writer::StepMasks& masks,
             const gpu_writer::StepNames& names);
    // Before another row's decision: of a whole one all is there, of others nothing beside what was sent.
    void forget_granted(const gpu_writer::LeanWant& want);
    // Until the next call.
    sampler::RowView view(std::uint32_t row);
    // How many blocks that was.
    std::uint32_t grant(std::span<const std::uint64_t> missing);
    std::uint32_t sent(std::uint32_t row) const { return head(row).sent; }
    // What was stored of the row, for the want that it was laid by: its head, maxima and blocks, and the row
    // where it is sent whole.
    std::size_t bytes_sent(std::uint32_t row, const gpu_writer::LeanWant& want) const;
    std::size_t block_bytes() const;

  private:
    const proto::LeanHead& head(std::uint32_t row) const;

    const measurement::LaidRows& in_memory_;
    const measurement::LaidRows& rows_;
    proto::Geometry geometry_;
    gpu_writer::LeanShape shape_;
    std::vector<std::byte> part_;
    std::vector<std::uint64_t> placed_;
    sampler::LeanColumn lean_;
    sampler::Slice slice_;
};

}  // namespace croupier::bench
