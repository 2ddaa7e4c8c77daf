// What of a column's row its sampler will want, as far as its parameters tell.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "gpu_writer/lean_wants.h"
#include "gpu_writer/named_blocks.h"
#include "proto/plain_draw.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

// For how many blocks a slice has room, and how many of them the request names; nothing: more than it may.
struct BlockRoom {
    std::uint32_t all;
    std::optional<std::uint16_t> named = 0;
};

// Of so many blocks a request may name those that hold the ids that it allows alone, or those that it lifts.
constexpr std::uint32_t most_named(const proto::RequestRules& rules, std::uint32_t room) {
    // The least that other blocks are left with: those that ranks share, and those of the best tokens.
    constexpr std::uint32_t kLeft = 8;
    return rules.lists ? room - kLeft : room / 3;
}

// Which mask it has is the caller's to say.
LeanWant want_of(const proto::SamplingParams& given, const proto::race::Key& key,
                 const proto::RequestRules& rules, std::uint32_t vocab, const BlockRoom& room);

// Of the columns of a step: to find racers costs more than it saves where few have them, and these have
// blocks by the race.
void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room);

// As the host finds them.
StepMasks masks_of(const shm::Segment& segment, std::uint64_t step);

// A column whose sequence is not there wants a little: the samplers refuse to decide it. `blocks` are the
// rank's; `names` has room for the session's lean blocks of each column: what StepNames looks at.
void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                NamedBlocks& blocks, std::span<LeanWant> wants, std::span<std::uint16_t> names);

}  // namespace croupier::gpu_writer
