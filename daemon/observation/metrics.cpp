#include "daemon/observation/metrics.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace croupier::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::array<std::pair<const char*, proto::SessionCounter>, 3> kStepParts = {
    {{"logits_wait", proto::SessionCounter::logits_wait_ns},
     {"decision", proto::SessionCounter::step_decision_ns},
     {"exposed", proto::SessionCounter::exposed_ns}}};
double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

MetricFamily family(const std::string& name, const std::string& help, MetricType type) {
    MetricFamily made;
    made.name = "croupier_" + name;
    made.help = help;
    made.type = type;
    return made;
}

void add_value(MetricFamily& to, const Labels& labels, double value) {
    ClientMetric metric;
    metric.label = labels;
    if (to.type == MetricType::Counter) {
        metric.counter.value = value;
    } else {
        metric.gauge.value = value;
    }
    to.metric.push_back(std::move(metric));
}

void add_histogram(MetricFamily& to, const Labels& labels, const shm::HistogramSnapshot& histogram) {
    ClientMetric metric;
    metric.label = labels;
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
        cumulative += histogram.buckets[i];
        const bool last = i + 1 == histogram.buckets.size();
        const double bound = last ? std::numeric_limits<double>::infinity() : proto::bucket_upper_seconds(i);
        metric.histogram.bucket.push_back({cumulative, bound});
    }
    metric.histogram.sample_count = cumulative;
    metric.histogram.sample_sum = seconds(histogram.sum_ns);
    to.metric.push_back(std::move(metric));
}

using SamplerValue = std::function<double(const shm::SamplerSnapshot&)>;
using SessionValue = std::function<double(const shm::SessionSnapshot&)>;

using Sampler = const shm::SamplerSnapshot&;
using Session = const shm::SessionSnapshot&;

// Families with a sample for each sampler, and for each session that can be read.
class Families {
  public:
    Families(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot)
        : families_(families), snapshot_(snapshot) {}

    void of_samplers(const std::string& name, const char* help, MetricType type, const SamplerValue& value) {
        MetricFamily made = family(name, help, type);
        for (const auto& sampler : snapshot_.samplers)
            add_value(made, {{"sampler", std::to_string(sampler.index)}}, value(sampler));
        families_.push_back(std::move(made));
    }
    void of_sessions(const std::string& name, const char* help, MetricType type, const SessionValue& value) {
        MetricFamily made = family(name, help, type);
        for (const auto& session : snapshot_.sessions) {
            if (session.fault.empty()) add_value(made, {{"session", session.name}}, value(session));
        }
        families_.push_back(std::move(made));
    }

  private:
    std::vector<MetricFamily>& families_;
    const shm::Snapshot& snapshot_;
};

void add_sampler_lives(Families& families, const shm::Snapshot& snapshot) {
    families.of_samplers("sampler_up", "1 while the sampler process lives", MetricType::Gauge,
                         [](Sampler sampler) { return sampler.alive ? 1.0 : 0.0; });
    families.of_samplers("sampler_columns_total", "Columns that the sampler decided", MetricType::Counter,
                         [](Sampler sampler) { return static_cast<double>(sampler.columns); });
    families.of_samplers("sampler_busy_seconds_total",
                         "Time that the sampler's threads spent on decisions, added up", MetricType::Counter,
                         [](Sampler sampler) { return seconds(sampler.busy_ns); });
    // The time above adds up that of all threads.
    families.of_samplers(
        "sampler_threads", "Threads of the sampler that decide", MetricType::Gauge,
        [&](Sampler) { return static_cast<double>(std::max(snapshot.threads_per_sampler, 1U)); });
    families.of_samplers("sampler_restarts_total", "How often the sampler was restarted", MetricType::Counter,
                         [](Sampler sampler) { return static_cast<double>(sampler.restarts); });
    families.of_samplers("sampler_heartbeat_age_seconds", "Time since the sampler's last heartbeat",
                         MetricType::Gauge,
                         [](Sampler sampler) { return seconds(sampler.heartbeat_age_ns); });
}

void add_sampler_states(Families& families) {
    families.of_samplers("sampler_state_bytes", "Memory of what the sampler has derived from token logs",
                         MetricType::Gauge,
                         [](Sampler sampler) { return static_cast<double>(sampler.state_bytes); });
    families.of_samplers("sampler_states", "Sequences of which the sampler has derived a state",
                         MetricType::Gauge,
                         [](Sampler sampler) { return static_cast<double>(sampler.states); });
    families.of_samplers("sampler_states_dropped_total",
                         "States dropped because samplers.max_state_bytes was reached", MetricType::Counter,
                         [](Sampler sampler) { return static_cast<double>(sampler.states_dropped); });
}

// Of all samplers together: with a label for each, a large host would have thousands of series.
StageCounts stages_of_all(const shm::Snapshot& snapshot) {
    StageCounts life;
    for (const auto& sampler : snapshot.samplers) {
        for (std::size_t stage = 0; stage < life.size(); ++stage) life[stage].add(sampler.stages[stage]);
    }
    return life;
}

void add_stages(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot) {
    MetricFamily stages = family("stage_seconds", "Time a stage of the decision plane takes, of all samplers",
                                 MetricType::Histogram);
    const StageCounts life = stages_of_all(snapshot);
    for (std::size_t stage = 0; stage < life.size(); ++stage)
        add_histogram(stages, {{"stage", proto::kStageNames[stage]}}, life[stage]);
    families.push_back(std::move(stages));
}

void add_processes_of_sessions(Families& families) {
    families.of_sessions("session_client_up", "1 while the session's client lives", MetricType::Gauge,
                         [](Session session) { return session.client_alive ? 1.0 : 0.0; });
    families.of_sessions("session_writers", "Logits writers that live", MetricType::Gauge,
                         [](Session session) { return static_cast<double>(session.writers_alive); });
}

void add_late_ranks(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot) {
    MetricFamily behind =
        family("session_rank_behind_seconds",
               "How long the oldest step that lacks the rank's logits is in flight; 0: it lacks none",
               MetricType::Gauge);
    for (const auto& session : snapshot.sessions) {
        for (std::size_t rank = 0; rank < session.rank_behind_ns.size(); ++rank) {
            add_value(behind, {{"session", session.name}, {"rank", std::to_string(rank)}},
                      seconds(session.rank_behind_ns[rank]));
        }
    }
    families.push_back(std::move(behind));
}

void add_session_sizes(Families& families) {
    families.of_sessions("session_sequences", "Live sequences", MetricType::Gauge,
                         [](Session session) { return static_cast<double>(session.live_sequences); });
    families.of_sessions("session_memory_bytes", "Shared memory of the session", MetricType::Gauge,
                         [](Session session) { return static_cast<double>(session.bytes); });
    families.of_sessions("ring_slots", "Step slots of the session's rings", MetricType::Gauge,
                         [](Session session) { return static_cast<double>(session.geometry.slots); });
    families.of_sessions("ring_steps_in_flight", "Steps published and not yet taken", MetricType::Gauge,
                         [](Session session) { return static_cast<double>(session.steps_in_flight); });
    families.of_sessions(
        "ring_steps_decided", "Steps decided that the client has not taken", MetricType::Gauge,
        [](Session session) { return static_cast<double>(session.steps_decided_not_taken); });
    families.of_sessions(
        "hot_set_size", "Ids of the hot set that new sequences are given; 0: each row chooses",
        MetricType::Gauge, [](Session session) { return static_cast<double>(session.hot_size); });
}

void add_session_counters(Families& families) {
    for (std::size_t i = 0; i < proto::kSessionCounterText.size(); ++i) {
        std::string name = proto::kSessionCounterText[i].name;
        const bool time = name.ends_with("_ns");
        if (time) name = name.substr(0, name.size() - 3) + "_seconds";
        families.of_sessions(name + "_total", proto::kSessionCounterText[i].help, MetricType::Counter,
                             [i, time](Session session) {
                                 const auto value = static_cast<double>(session.counters[i]);
                                 return time ? value * 1e-9 : value;
                             });
    }
}

void add_sampler_families(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot) {
    Families of(families, snapshot);
    add_sampler_lives(of, snapshot);
    add_sampler_states(of);
    add_stages(families, snapshot);
}

void add_session_families(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot) {
    Families of(families, snapshot);
    add_processes_of_sessions(of);
    add_late_ranks(families, snapshot);
    add_session_sizes(of);
    add_session_counters(of);
}

using RecentValue = std::function<std::optional<double>(const SessionCounts&)>;
using RecentCounts = std::map<std::string, SessionCounts>;

// A session has no sample of what it did nothing for: an alarm on a share must not fire because of a pause.
void add_recent_values(MetricFamily& to, const Labels& more, const shm::Snapshot& snapshot,
                       const RecentCounts& counted, const RecentValue& value) {
    for (const auto& session : snapshot.sessions) {
        const auto counts = counted.find(session.name);
        if (!session.fault.empty() || counts == counted.end()) continue;
        const auto sample = value(counts->second);
        Labels labels = {{"session", session.name}};
        labels.insert(labels.end(), more.begin(), more.end());
        if (sample) add_value(to, labels, *sample);
    }
}

void add_recent_ratios(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot,
                       const RecentCounts& counted) {
    const auto add_family = [&](const char* name, const char* help, const RecentValue& value) {
        MetricFamily made = family(name, help, MetricType::Gauge);
        add_recent_values(made, {}, snapshot, counted, value);
        families.push_back(std::move(made));
    };
    add_family("hot_acceptance_ratio",
               "Share of untruncated draws whose token came from the hot set, over the last five minutes",
               hot_acceptance_ratio);
    add_family("overlap_ratio",
               "Share of the decision time hidden behind the engine's own work, over the last five minutes; "
               "1 for one that only polls or has a relay",
               overlap_ratio);
    add_family("recent_column_delay_seconds",
               "Mean time from logits complete to the start of a column's decision, over the last five "
               "minutes",
               mean_column_delay_seconds);
}

void add_recent_step_parts(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot,
                           const RecentCounts& counted, const RecentMinutes& recent) {
    MetricFamily steps = family(
        "recent_step_part_seconds",
        "Mean time of a step's parts over the last five minutes; exposed is the part of decision during "
        "which the scheduler waited, taking follows the last commit",
        MetricType::Gauge);
    for (const auto& [part, counter] : kStepParts) {
        add_recent_values(
            steps, {{"part", part}}, snapshot, counted,
            [counter = counter](const SessionCounts& counts) { return mean_step_seconds(counts, counter); });
    }
    const auto times = recent.steps(kAlarmWindowNs);
    for (const auto& session : snapshot.sessions) {
        const auto found = times.find(session.name);
        if (!session.fault.empty() || found == times.end() || found->second.taken == 0) continue;
        add_value(steps, {{"session", session.name}, {"part", "taking"}},
                  seconds(found->second.taking_ns) / static_cast<double>(found->second.taken));
    }
    families.push_back(std::move(steps));
}

// As summaries have it: quantiles of late, and the sum and the count of the whole life.
void add_summary(MetricFamily& to, const Labels& labels, const shm::HistogramSnapshot& life,
                 const shm::HistogramSnapshot& recent) {
    ClientMetric metric;
    metric.label = labels;
    metric.summary.sample_count = life.count();
    metric.summary.sample_sum = seconds(life.sum_ns);
    for (const double quantile : {0.5, 0.9, 0.99}) {
        const auto value = recent.quantile_seconds(quantile);
        if (value) metric.summary.quantile.push_back({quantile, *value});
    }
    to.metric.push_back(std::move(metric));
}

void add_recent_stages(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot,
                       const RecentMinutes& recent) {
    MetricFamily made =
        family("recent_stage_seconds",
               "Time a stage of the decision plane takes, of all samplers; quantiles over the "
               "last five minutes, interpolated between bounds a factor of two apart",
               MetricType::Summary);
    const StageCounts life = stages_of_all(snapshot);
    const StageCounts window = recent.stages(kAlarmWindowNs);
    for (std::size_t stage = 0; stage < life.size(); ++stage) {
        add_summary(made, {{"stage", proto::kStageNames[stage]}}, life[stage], window[stage]);
    }
    families.push_back(std::move(made));
}

// Of a session's own steps; stage_seconds has those of all sessions together.
void add_step_families(std::vector<MetricFamily>& families, const shm::Snapshot& snapshot,
                       const RecentMinutes& recent, const JournalDigest& journal) {
    constexpr const char* kHelp = "Time from logits complete to a step's last commit";
    MetricFamily steps = family("session_step_seconds", kHelp, MetricType::Histogram);
    MetricFamily quantiles =
        family("recent_step_seconds", std::string(kHelp) + "; quantiles over the last five minutes",
               MetricType::Summary);
    auto times = recent.steps(kAlarmWindowNs);
    for (const auto& session : snapshot.sessions) {
        if (!session.fault.empty()) continue;
        const shm::HistogramSnapshot life = journal.all_steps(session.id).decision;
        add_histogram(steps, {{"session", session.name}}, life);
        add_summary(quantiles, {{"session", session.name}}, life, times[session.name].decision);
    }
    families.push_back(std::move(steps));
    families.push_back(std::move(quantiles));
    MetricFamily lost = family("journal_entries_lost_total",
                               "Columns and steps that samplers wrote over before the daemon had read them: "
                               "no metric of steps and no list of slow columns has them",
                               MetricType::Counter);
    add_value(lost, {}, static_cast<double>(journal.lost()));
    families.push_back(std::move(lost));
}

}  // namespace

std::vector<MetricFamily> to_metrics(const shm::Snapshot& snapshot, const RecentMinutes& recent,
                                     const JournalDigest& journal) {
    std::vector<MetricFamily> families;
    MetricFamily up = family("daemon_up_seconds", "Time since the daemon started", MetricType::Gauge);
    add_value(up, {{"instance_name", snapshot.instance}}, seconds(snapshot.up_ns));
    families.push_back(std::move(up));
    add_sampler_families(families, snapshot);
    add_session_families(families, snapshot);
    const RecentCounts counted = recent.sessions(kAlarmWindowNs);
    add_recent_ratios(families, snapshot, counted);
    add_recent_step_parts(families, snapshot, counted, recent);
    add_recent_stages(families, snapshot, recent);
    add_step_families(families, snapshot, recent, journal);
    return families;
}

void add_shared_memory(std::vector<MetricFamily>& families, const std::string& directory) {
    MetricFamily size = family("shm_size_bytes", "Size of the file system of `shm.dir`", MetricType::Gauge);
    MetricFamily free = family(
        "shm_free_bytes", "What is free of it, for sessions to come and for token logs", MetricType::Gauge);
    struct statvfs space {};
    constexpr auto kUnknown = ~fsblkcnt_t{0};
    if (::statvfs(directory.c_str(), &space) == 0 && space.f_blocks != 0 && space.f_blocks != kUnknown) {
        const auto bytes = [&](fsblkcnt_t blocks) { return static_cast<double>(blocks * space.f_frsize); };
        add_value(size, {}, bytes(space.f_blocks));
        add_value(free, {}, bytes(space.f_bavail));
    }
    families.push_back(std::move(size));
    families.push_back(std::move(free));
}

}  // namespace croupier::daemon
