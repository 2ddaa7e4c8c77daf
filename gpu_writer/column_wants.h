// What of a column's row its sampler will want, by the plan of the request that stands in the segment.
#pragma once

#include <cstdint>
#include <span>

#include "gpu_writer/lean_wants.h"
#include "gpu_writer/named_ids.h"
#include "request/plan.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

// Of a column's request, as it stands in the segment.
request::Plan plan_in_segment(const proto::SamplingParams& params, const proto::SequenceEntry& entry,
                              std::uint32_t position, const proto::Geometry& geometry);

// As the host finds them.
StepMasks masks_of(const shm::Segment& segment, std::uint64_t step);

// A column whose sequence is not there wants a little: the samplers refuse to decide it.
void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                NamedIds& names, std::span<LeanWant> wants);

}  // namespace croupier::gpu_writer
