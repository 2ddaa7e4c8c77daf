#include "shm/snapshot.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "shm/clock.h"
#include "shm/logits_publisher.h"
#include "shm/plane.h"
#include "shm/segment.h"
#include "shm/session_record.h"
#include "shm/step_window.h"

namespace croupier::shm {
namespace {

std::uint64_t since(std::uint64_t then, std::uint64_t now) {
    return now > then ? now - then : 0;
}

HistogramSnapshot read_histogram(const proto::LatencyHistogram& histogram) {
    HistogramSnapshot copy;
    for (std::size_t i = 0; i < proto::kLatencyBuckets; ++i) {
        copy.buckets[i] = histogram.buckets[i].load(std::memory_order_relaxed);
    }
    copy.sum_ns = histogram.sum_ns.load(std::memory_order_relaxed);
    return copy;
}

SamplerSnapshot read_sampler(const Plane& plane, std::uint32_t index, std::uint64_t now) {
    const auto& entry = plane.header().samplers[index];
    SamplerSnapshot sampler;
    sampler.index = index;
    sampler.alive = plane.sampler_alive(index);
    sampler.pid = entry.pid.load(std::memory_order_relaxed);
    sampler.core = entry.core.load(std::memory_order_relaxed);
    sampler.restarts = entry.restarts.load(std::memory_order_relaxed);
    sampler.heartbeat_age_ns = since(entry.heartbeat_ns.load(std::memory_order_relaxed), now);
    sampler.columns = entry.columns.load(std::memory_order_relaxed);
    sampler.busy_ns = entry.busy_ns.load(std::memory_order_relaxed);
    sampler.state_bytes = entry.states.bytes.load(std::memory_order_relaxed);
    sampler.states = entry.states.states.load(std::memory_order_relaxed);
    sampler.states_dropped = entry.states.dropped.load(std::memory_order_relaxed);
    sampler.up_ns = since(entry.started_ns.load(std::memory_order_relaxed), now);
    for (std::size_t stage = 0; stage < sampler.stages.size(); ++stage) {
        sampler.stages[stage] = read_histogram(entry.stages[stage]);
    }
    return sampler;
}

std::uint64_t behind_ns(const Segment& segment, std::uint32_t rank, std::uint64_t now) {
    const StepWindow window = steps_in_flight(segment);
    for (std::uint64_t step = window.first; window.sound && step < window.end; ++step) {
        const std::uint32_t slot = segment.slot_of(step);
        const auto& record = segment.schedule(slot);
        const std::uint32_t columns = std::min(record.columns, segment.geometry().max_batch);
        if (slice_ready(segment, step, rank) || step_complete(segment, slot, columns)) continue;
        return since(record.published_ns, now);
    }
    return 0;
}

void count_rings(const Segment& segment, SessionSnapshot& session) {
    const StepWindow window = steps_in_flight(segment);
    if (!window.sound) {
        session.fault = "the step counters contradict each other";
        return;
    }
    session.steps_in_flight = window.end - window.first;
    for (std::uint64_t step = window.first; step < window.end; ++step) {
        const std::uint32_t slot = segment.slot_of(step);
        const std::uint32_t columns = std::min(segment.schedule(slot).columns, segment.geometry().max_batch);
        if (step_complete(segment, slot, columns)) ++session.steps_decided_not_taken;
    }
    for (std::uint32_t index = 0; index < segment.geometry().max_sequences; ++index) {
        const auto state = segment.sequence(index).state.load(std::memory_order_relaxed);
        if (state == proto::SequenceState::live) ++session.live_sequences;
    }
}

// Of a path that segment_files() gave: digits stand before the end.
std::uint64_t id_in(const std::string& path) {
    return std::strtoull(path.c_str() + path.rfind('-') + 1, nullptr, 10);
}

SessionSnapshot read_session(const std::string& path) {
    SessionSnapshot session;
    session.path = path;
    auto attached = Segment::attach(path, Access::read_only);
    if (!attached) {
        session.fault = attached.error().message;
        return session;
    }
    // Name and id are the daemon's: in the header stands what the client wrote there last.
    const auto record = read_record(path);
    if (!record) {
        session.fault = record.error().message;
        return session;
    }
    session.id = id_in(path);
    session.name = record.value().name;
    const Segment& segment = attached.value();
    auto& header = segment.header();
    session.state = header.state.load(std::memory_order_relaxed);
    session.geometry = segment.geometry();
    session.bytes = segment.layout().total_bytes;
    session.client_pid = header.client_pid.load(std::memory_order_relaxed);
    session.client_alive = segment.is_held(Role::client);
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const bool alive = segment.is_held(writer_role(rank));
        if (alive) ++session.writers_alive;
        session.writer_pids.push_back(alive ? header.writers[rank].pid.load(std::memory_order_relaxed) : 0);
        session.rank_behind_ns.push_back(behind_ns(segment, rank, monotonic_ns()));
    }
    for (std::size_t i = 0; i < session.counters.size(); ++i) {
        session.counters[i] =
            header.counter(static_cast<proto::SessionCounter>(i)).load(std::memory_order_relaxed);
    }
    session.hot_size = proto::hot_size(header.hot_choice.load(std::memory_order_relaxed));
    count_rings(segment, session);
    return session;
}

}  // namespace

std::uint64_t HistogramSnapshot::count() const {
    return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

HistogramSnapshot HistogramSnapshot::since(const HistogramSnapshot& earlier) const {
    HistogramSnapshot grown;
    for (std::size_t i = 0; i < buckets.size(); ++i)
        grown.buckets[i] = shm::since(earlier.buckets[i], buckets[i]);
    grown.sum_ns = shm::since(earlier.sum_ns, sum_ns);
    return grown;
}

void HistogramSnapshot::add(const HistogramSnapshot& more) {
    for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += more.buckets[i];
    sum_ns += more.sum_ns;
}

std::optional<double> HistogramSnapshot::quantile_seconds(double quantile) const {
    const auto all = static_cast<double>(count());
    if (all == 0) return std::nullopt;
    double below = 0;
    for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
        const auto here = static_cast<double>(buckets[i]);
        const double lower = i == 0 ? 0.0 : proto::bucket_upper_seconds(i - 1);
        if (here > 0 && below + here >= quantile * all) {
            return lower + (proto::bucket_upper_seconds(i) - lower) * (quantile * all - below) / here;
        }
        below += here;
    }
    // The last bucket is open: no more is known than where it begins.
    return proto::bucket_upper_seconds(buckets.size() - 2);
}

void hide_from_others(SessionSnapshot& session) {
    session.id = 0;
    session.path.clear();
    session.client_pid = 0;
    session.writer_pids.clear();
    if (!session.fault.empty()) session.fault = "it cannot be read";
}

double Snapshot::busy_share(const SamplerSnapshot& sampler) const {
    if (sampler.up_ns == 0) return 0.0;
    return static_cast<double>(sampler.busy_ns) / static_cast<double>(sampler.up_ns) /
           std::max(threads_per_sampler, 1U);
}

double SessionSnapshot::hot_acceptance() const {
    const auto hot = static_cast<double>(counter(proto::SessionCounter::draws_hot));
    const auto tail = static_cast<double>(counter(proto::SessionCounter::draws_tail));
    return hot + tail > 0 ? hot / (hot + tail) : 0.0;
}

std::vector<std::string> segment_files(const std::string& directory, const std::string& instance) {
    std::vector<std::string> paths;
    const std::string prefix = "croupier-" + instance + "-";
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
        const std::string file = entry.path().filename().string();
        if (!file.starts_with(prefix) || !file.ends_with(".seg")) continue;
        // Instance "a" must not read the files of instance "a-b": after the prefix come digits only.
        const std::string id = file.substr(prefix.size(), file.size() - prefix.size() - 4);
        if (!id.empty() && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; })) {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

Result<Snapshot> observe(const std::string& directory, const std::string& instance) {
    CROUPIER_TRY_VALUE(attached, Plane::attach(directory, instance, Access::read_only));
    const Plane& plane = attached;
    const auto& header = plane.header();
    const std::uint64_t now = monotonic_ns();
    Snapshot snapshot;
    snapshot.instance = instance;
    snapshot.daemon_alive = plane.daemon_alive();
    snapshot.daemon_pid = header.daemon_pid;
    snapshot.up_ns = since(header.started_ns, now);
    snapshot.threads_per_sampler = header.threads_per_sampler;
    const std::uint32_t samplers = std::min(header.sampler_count, proto::kMaxSamplers);
    for (std::uint32_t index = 0; index < samplers; ++index) {
        snapshot.samplers.push_back(read_sampler(plane, index, now));
    }
    for (const auto& path : segment_files(directory, instance))
        snapshot.sessions.push_back(read_session(path));
    return snapshot;
}

const char* session_state_name(proto::SessionState state) {
    switch (state) {
        case proto::SessionState::active:
            return "active";
        case proto::SessionState::draining:
            return "draining";
        case proto::SessionState::closed:
            return "closed";
        case proto::SessionState::fenced:
            return "fenced";
    }
    return "unknown";
}

}  // namespace croupier::shm
