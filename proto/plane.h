// What the supervisor and its samplers share: who runs, which sessions there are, what was measured.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/bell.h"
#include "proto/column_journal.h"

namespace croupier::proto {

constexpr std::uint64_t kPlaneMagic = 0x3130454E414C5043ULL;
constexpr std::uint32_t kPlaneVersion = 6;
constexpr std::uint32_t kMaxSessions = 64;

// Bucket i counts durations below 2^i microseconds / 4; the last one is open.
constexpr std::size_t kLatencyBuckets = 24;
constexpr double bucket_upper_seconds(std::size_t bucket) {
    return static_cast<double>(std::uint64_t{1} << bucket) * 0.25e-6;
}

enum class Stage : std::uint32_t {
    logits_wait,  // publication to logits complete
    claim_wait,   // logits complete to the start of a column's decision
    decide,       // one column
    step,         // logits complete to the step's last commit
    count_
};
constexpr std::array kStageNames = {"logits_wait", "claim_wait", "decide", "step"};
static_assert(kStageNames.size() == static_cast<std::size_t>(Stage::count_));

struct LatencyHistogram {
    std::atomic<std::uint64_t> buckets[kLatencyBuckets];
    std::atomic<std::uint64_t> sum_ns;
};

enum class SamplerState : std::uint32_t { empty = 0, starting = 1, running = 2, restarting = 3 };

// What a sampler has derived from token logs; none but that sampler changes it.
struct StateTotals {
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::uint64_t> states;
    std::atomic<std::uint64_t> dropped;  // for want of room, since the sampler's entry is
};

// The column that a sampler prepares while its logits are awaited, which takes no claim: should the sampler
// end or stall there, it is known of what.
struct PreparedColumn {
    std::atomic<std::uint64_t> session_id;  // 0: it prepares none
    std::atomic<std::uint64_t> step;
    std::atomic<std::uint32_t> column;
};

struct alignas(64) SamplerEntry {
    std::atomic<SamplerState> state;
    std::atomic<std::int32_t> pid;
    std::atomic<std::int32_t> core;          // -1: not pinned
    std::atomic<std::uint32_t> incarnation;  // owner in claim words; never 0, never used twice by one daemon
    std::atomic<std::uint32_t> restarts;
    std::atomic<std::uint64_t> heartbeat_ns;
    alignas(64) std::atomic<std::uint64_t> columns;
    std::atomic<std::uint64_t> busy_ns;
    std::atomic<std::uint64_t> started_ns;
    LatencyHistogram stages[static_cast<std::size_t>(Stage::count_)];
    alignas(64) StateTotals states;
    PreparedColumn prepares;
};

struct alignas(64) SessionTableEntry {
    // 0: empty. Stored with release, after its segment was sent to the samplers.
    std::atomic<std::uint64_t> session_id;
    // The session of which a sampler found pages gone: not the row's, if the row was given away meanwhile.
    std::atomic<std::uint64_t> lost;
};

// At the file's start. Behind it stands a JournalRing for each thread of each sampler.
struct PlaneHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;
    char instance[40];
    std::int32_t daemon_pid;
    std::uint32_t sampler_count;
    std::uint32_t threads_per_sampler;
    std::uint64_t started_ns;
    // Tunables that SIGHUP may change while samplers run.
    alignas(64) std::atomic<std::uint32_t> wait_mode;
    std::atomic<std::uint32_t> spin_us;
    std::atomic<std::uint32_t> max_sleep_us;
    std::atomic<std::uint64_t> state_limit_bytes;  // of each sampler
    alignas(64) std::atomic<std::uint64_t> table_version;
    std::atomic<std::uint64_t> housekeepings;  // grows when the supervisor has looked after everything
    Bell bell;                                 // rung by the supervisor
    SessionTableEntry sessions[kMaxSessions];
    SamplerEntry samplers[kMaxSamplers];
};
static_assert(sizeof(PlaneHeader) % alignof(JournalRing) == 0);

constexpr std::uint64_t plane_bytes(std::uint32_t samplers, std::uint32_t threads) {
    return sizeof(PlaneHeader) + std::uint64_t{samplers} * threads * sizeof(JournalRing);
}

}  // namespace croupier::proto
