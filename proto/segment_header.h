// The first page of a session's segment.
#pragma once

#include <atomic>
#include <cstdint>

#include "proto/bell.h"
#include "proto/counters.h"
#include "proto/geometry.h"
#include "proto/hot_set.h"
#include "proto/segment_layout.h"

namespace croupier::proto {

constexpr std::uint64_t kSegmentMagic = 0x3130474553505243ULL;  // "CRPSEG01"
// The major version: builds of another one refuse the segment. It grows with a change that the minor one
// cannot tell.
constexpr std::uint32_t kSegmentVersion = 17;
// Grows with the first change since a release that gives a struct of ElementBytes a field at its end,
// reserved bytes of the others a meaning, or the layout a region (docs/releasing.md): always so that zero
// means "off", and that what was there keeps its place. Reserved bytes within those of ElementBytes stay 0:
// only what lies behind what a build knows of is refused by it. Builds of different minor versions serve each
// other.
constexpr std::uint32_t kSegmentMinor = 0;
constexpr std::uint32_t kHeaderBytes = 8192;

enum class SessionState : std::uint32_t { active = 1, draining = 2, closed = 3, fenced = 4 };

struct alignas(64) WriterCell {
    std::atomic<std::uint32_t> epoch;  // grows when a writer attaches, and when one writes a part anew
    std::atomic<std::int32_t> pid;     // 0: it let go by itself
    // With its pid: which process it is, for a successor that has to wait for its end.
    std::atomic<std::uint64_t> started;
    std::atomic<std::uint64_t> pid_namespace;
    std::atomic<std::uint32_t> attached;  // how many writers the rank has had
};

struct HotCost {
    std::atomic<std::uint64_t> draws;
    std::atomic<std::uint64_t> ns;
};

struct SegmentHeader {
    // Fixed at creation, covered by the checksum.
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::uint32_t minor;
    std::uint32_t reserved;
    std::uint64_t total_bytes;
    std::uint64_t session_id;
    char name[64];      // of the session, chosen by the engine
    char instance[40];  // of the daemon
    Geometry geometry;
    SegmentLayout layout;
    std::uint64_t checksum;

    // Written by the daemon.
    alignas(64) std::atomic<SessionState> state;
    std::atomic<std::uint32_t> daemon_generation;
    std::atomic<std::int32_t> daemon_pid;
    std::atomic<std::uint32_t> zmq_stream;  // 1: the supervisor sends decisions over ZMQ too
    // Of the sequences that are admitted from now on, and of one in kHotTrialShare of them.
    std::atomic<std::uint32_t> hot_choice;
    std::atomic<std::uint32_t> hot_trial;
    std::atomic<std::uint32_t> wanted;  // 1: by a daemon, from who stands in for the one before it

    // Written by the client.
    alignas(64) std::atomic<std::uint64_t> published;  // steps 0 .. published - 1 are valid records
    alignas(64) std::atomic<std::uint64_t> taken;      // steps below it are done with: their slots are free
    alignas(64) std::atomic<std::uint32_t> client_epoch;
    std::atomic<std::int32_t> client_pid;
    // Grows with every revision of a sequence: what of the steps in flight is void may be answered at once.
    std::atomic<std::uint32_t> revisions;

    // Written by samplers; the client sleeps on it.
    alignas(64) std::atomic<std::uint32_t> decided_bell;
    std::atomic<std::uint32_t> client_sleeps;
    std::atomic<std::uint32_t>
        client_listens;  // the epoch of a client with a thread that sleeps on it; 0: none

    // Rung by the client and the writers; idle samplers sleep on it.
    Bell bell;

    // Written by samplers: what untruncated draws with each hot set took.
    alignas(64) HotCost hot_costs[kHotChoices];

    WriterCell writers[kMaxTp];
    alignas(64) std::atomic<std::uint64_t> counters[kCounterLines * kCountersInLine];

    std::atomic<std::uint64_t>& counter(SessionCounter which) { return counters[counter_place(which)]; }
};
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);

// FNV-1a over the fixed part: a guard against stray writes, not against an enemy.
std::uint64_t header_checksum(const SegmentHeader& header);

}  // namespace croupier::proto
