// What an instance looks like from outside: read from its files, whether its daemon lives or not.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/counters.h"
#include "proto/plane.h"
#include "proto/segment_header.h"
#include "shm/error.h"

namespace croupier::shm {

struct HistogramSnapshot {
    std::array<std::uint64_t, proto::kLatencyBuckets> buckets{};
    std::uint64_t sum_ns = 0;

    std::uint64_t count() const;
    // What came since `earlier`; nothing where a bucket has shrunk, as those of a new daemon have.
    HistogramSnapshot since(const HistogramSnapshot& earlier) const;
    void add(const HistogramSnapshot& more);
    // Interpolated in its bucket, whose bounds are a factor of two apart; nullopt while nothing is counted.
    std::optional<double> quantile_seconds(double quantile) const;
};

struct SamplerSnapshot {
    std::uint32_t index = 0;
    bool alive = false;
    std::int32_t pid = 0;
    std::int32_t core = -1;
    std::uint32_t restarts = 0;
    std::uint64_t heartbeat_age_ns = 0;
    std::uint64_t columns = 0;
    std::uint64_t busy_ns = 0;
    std::uint64_t up_ns = 0;
    std::uint64_t state_bytes = 0;  // derived from token logs
    std::uint64_t states = 0;
    std::uint64_t states_dropped = 0;
    std::array<HistogramSnapshot, static_cast<std::size_t>(proto::Stage::count_)> stages{};
};

struct SessionSnapshot {
    std::uint64_t id = 0;
    std::string name;
    std::string path;
    std::string fault;  // not empty: the segment could not be read, and why
    proto::SessionState state = proto::SessionState::closed;
    proto::Geometry geometry;
    std::uint64_t bytes = 0;
    std::int32_t client_pid = 0;
    bool client_alive = false;
    std::uint32_t writers_alive = 0;
    std::vector<std::int32_t> writer_pids;  // by rank; 0: none lives
    // By rank: how long the oldest step in flight whose slice it has not completed is published; 0: none.
    std::vector<std::uint64_t> rank_behind_ns;
    std::uint64_t steps_in_flight = 0;
    std::uint64_t steps_decided_not_taken = 0;
    std::uint32_t live_sequences = 0;
    std::uint32_t hot_size = 0;  // of new sequences; 0: each row chooses
    std::array<std::uint64_t, static_cast<std::size_t>(proto::SessionCounter::count_)> counters{};

    // Share of the untruncated draws whose token came from the hot set; 0 before the first.
    double hot_acceptance() const;
    std::uint64_t counter(proto::SessionCounter which) const {
        return counters[static_cast<std::size_t>(which)];
    }
};

struct Snapshot {
    std::string instance;
    bool daemon_alive = false;
    std::int32_t daemon_pid = 0;
    std::uint64_t up_ns = 0;
    std::uint32_t threads_per_sampler = 1;
    std::vector<SamplerSnapshot> samplers;
    std::vector<SessionSnapshot> sessions;

    // Of the time of all its threads since it was started.
    double busy_share(const SamplerSnapshot& sampler) const;
};

// Attaches read-only and disturbs nobody.
Result<Snapshot> observe(const std::string& directory, const std::string& instance);
// For those whose session it is not: the id and the path are a capability, and a fault names the path.
void hide_from_others(SessionSnapshot& session);
// Paths of the instance's segments, sound or not.
std::vector<std::string> segment_files(const std::string& directory, const std::string& instance);

std::string to_json(const Snapshot& snapshot);

const char* session_state_name(proto::SessionState state);

}  // namespace croupier::shm
