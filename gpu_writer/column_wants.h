// What of a column's row its sampler will want, as far as its parameters tell.
#pragma once

#include <span>

#include "gpu_writer/lean_wants.h"
#include "proto/plain_draw.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

// `room`: for so many blocks.
LeanWant want_of(const proto::SamplingParams& given, const proto::race::Key& key,
                 const proto::RequestRules& rules, std::uint32_t vocab, std::uint32_t room);

// Of the columns of a step: a draw beside what is sent costs more than it saves where few have one.
void spare_few_draws(std::span<LeanWant> wants);

// A column whose sequence is not there wants a little: the samplers refuse to decide it.
void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                std::span<LeanWant> wants);

}  // namespace croupier::gpu_writer
