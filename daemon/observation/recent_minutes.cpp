#include "daemon/observation/recent_minutes.h"

#include <algorithm>
#include <chrono>

#include "shm/clock.h"

namespace croupier::daemon {
namespace {

using proto::SessionCounter;

// A client may write its counters: what has shrunk counts as nothing.
std::uint64_t grown(std::uint64_t from, std::uint64_t to) {
    return to > from ? to - from : 0;
}

double count_of(const SessionCounts& counts, SessionCounter which) {
    return static_cast<double>(counts[static_cast<std::size_t>(which)]);
}

SessionSecond session_second(const shm::SessionSnapshot& session, const SessionCounts& before) {
    SessionSecond second;
    second.name = session.name;
    for (std::size_t i = 0; i < before.size(); ++i) second.counts[i] = grown(before[i], session.counters[i]);
    second.steps_in_flight = session.steps_in_flight;
    second.steps_decided_not_taken = session.steps_decided_not_taken;
    second.live_sequences = session.live_sequences;
    for (const std::uint64_t behind : session.rank_behind_ns)
        second.latest_rank_ns = std::max(second.latest_rank_ns, behind);
    return second;
}

}  // namespace

Moment Moment::now() {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    return {shm::monotonic_ns(),
            static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wall).count())};
}

void RecentMinutes::add(const shm::Snapshot& snapshot, const JournalDigest& journal, Moment now) {
    Second second;
    second.end = now;
    if (last_) second.length_ns = grown(last_->monotonic_ns, now.monotonic_ns);
    add_sessions(snapshot, journal, second);
    add_samplers(snapshot, second);
    if (last_) {
        second.number = next_number_++;
        seconds_.push_back(std::move(second));
        if (seconds_.size() > kSecondsKept) seconds_.pop_front();
    }
    last_ = now;
}

void RecentMinutes::add_sessions(const shm::Snapshot& snapshot, const JournalDigest& journal,
                                 Second& second) {
    std::map<std::string, std::optional<SessionCounts>> seen;
    for (const auto& session : snapshot.sessions) {
        auto& counts = seen[session.path];
        if (!session.fault.empty()) continue;
        counts = session.counters;
        const auto before = session_counts_.find(session.path);
        SessionCounts from = session.counters;
        if (before == session_counts_.end() && last_) from = {};
        if (before != session_counts_.end() && before->second) from = *before->second;
        second.sessions.push_back(session_second(session, from));
        second.sessions.back().steps = journal.last_steps(session.id);
    }
    session_counts_ = std::move(seen);
}

void RecentMinutes::add_samplers(const shm::Snapshot& snapshot, Second& second) {
    // A sampler that is seen for the first time began its plane with zeroes.
    busy_ns_.resize(snapshot.samplers.size());
    stages_.resize(snapshot.samplers.size());
    for (std::size_t index = 0; index < snapshot.samplers.size(); ++index) {
        const auto& sampler = snapshot.samplers[index];
        second.sampler_busy_ns.push_back(grown(busy_ns_[index], sampler.busy_ns));
        busy_ns_[index] = sampler.busy_ns;
        for (std::size_t stage = 0; stage < second.stages.size(); ++stage) {
            second.stages[stage].add(sampler.stages[stage].since(stages_[index][stage]));
        }
        stages_[index] = sampler.stages;
    }
}

std::deque<Second>::const_iterator RecentMinutes::begin_of(std::uint64_t window_ns) const {
    return std::find_if(seconds_.begin(), seconds_.end(), [&](const Second& second) {
        return second.end.monotonic_ns + window_ns > seconds_.back().end.monotonic_ns;
    });
}

std::map<std::string, SessionCounts> RecentMinutes::sessions(std::uint64_t window_ns) const {
    std::map<std::string, SessionCounts> sums;
    for (auto second = begin_of(window_ns); second != seconds_.end(); ++second) {
        for (const auto& session : second->sessions) {
            SessionCounts& sum = sums[session.name];
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += session.counts[i];
        }
    }
    return sums;
}

std::map<std::string, StepTimes> RecentMinutes::steps(std::uint64_t window_ns) const {
    std::map<std::string, StepTimes> sums;
    for (auto second = begin_of(window_ns); second != seconds_.end(); ++second) {
        for (const auto& session : second->sessions) sums[session.name].add(session.steps);
    }
    return sums;
}

StageCounts RecentMinutes::stages(std::uint64_t window_ns) const {
    StageCounts sum;
    for (auto second = begin_of(window_ns); second != seconds_.end(); ++second) {
        for (std::size_t stage = 0; stage < sum.size(); ++stage) sum[stage].add(second->stages[stage]);
    }
    return sum;
}

std::optional<double> overlap_ratio(const SessionCounts& counts) {
    const double decision = count_of(counts, SessionCounter::step_decision_ns);
    if (decision == 0) return std::nullopt;
    return std::clamp(1.0 - count_of(counts, SessionCounter::exposed_ns) / decision, 0.0, 1.0);
}

std::optional<double> hot_acceptance_ratio(const SessionCounts& counts) {
    const double hot = count_of(counts, SessionCounter::draws_hot);
    const double all = hot + count_of(counts, SessionCounter::draws_tail);
    if (all == 0) return std::nullopt;
    return hot / all;
}

std::optional<double> mean_column_delay_seconds(const SessionCounts& counts) {
    const double columns = count_of(counts, SessionCounter::columns_decided);
    if (columns == 0) return std::nullopt;
    return count_of(counts, SessionCounter::column_delay_ns) * 1e-9 / columns;
}

std::optional<double> mean_step_seconds(const SessionCounts& counts, SessionCounter time) {
    const double steps = count_of(counts, SessionCounter::steps_taken);
    if (steps == 0) return std::nullopt;
    return count_of(counts, time) * 1e-9 / steps;
}

}  // namespace croupier::daemon
