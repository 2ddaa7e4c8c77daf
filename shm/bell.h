// Bells: clients, writers and the supervisor ring them, idle samplers sleep on all of theirs at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "proto/bell.h"

namespace croupier::shm {

void ring(proto::Bell& bell);
// Like ring(), but wakes one sampler, which then wakes the others: each wake-up is work for the caller. For
// what may wait a few microseconds. If the sampler is killed before it has woken the others, they sleep until
// the next ring or their timeout.
void ring_for_one(proto::Bell& bell);

struct HeardBell {
    proto::Bell* bell;
    std::uint32_t seen;
};
// Before a look for work: a ring that comes after it ends the next sleep at once.
HeardBell listen_to(proto::Bell& bell);

// Sleeps until one of the bells rings, or for `timeout`. Each bell is in memory that other users may write
// to, and none of them can harm another's sleepers: that is why there is one for each session.
void sleep_on(std::span<const HeardBell> bells, std::uint32_t sampler, std::chrono::nanoseconds timeout);

}  // namespace croupier::shm
