// What of a column's row its sampler will want, as far as its parameters tell.
#pragma once

#include <span>

#include "gpu_writer/lean_wants.h"
#include "proto/plain_draw.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

// `room`: for so many blocks. Which mask it has is the caller's to say.
LeanWant want_of(const proto::SamplingParams& given, const proto::race::Key& key,
                 const proto::RequestRules& rules, std::uint32_t vocab, std::uint32_t room);

// Of the columns of a step: to find racers costs more than it saves where few have them, and these have
// blocks by the race.
void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room);

// As the host finds them.
StepMasks masks_of(const shm::Segment& segment, std::uint64_t step);

// A column whose sequence is not there wants a little: the samplers refuse to decide it.
void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                std::span<LeanWant> wants);

}  // namespace croupier::gpu_writer
