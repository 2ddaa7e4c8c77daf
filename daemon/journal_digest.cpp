#include "daemon/journal_digest.h"

#include <algorithm>
#include <utility>

#include "daemon/stage_clock.h"
#include "proto/geometry.h"

namespace croupier::daemon {
namespace {

// More than a session has in flight: another thread's journal may tell of a step's end later.
constexpr std::size_t kCommitsKept = 2 * std::size_t{proto::kMaxSlots};

void keep_slowest(std::vector<SlowColumn>& columns) {
    const auto slower = [](const SlowColumn& a, const SlowColumn& b) {
        return a.column.record.duration_ns > b.column.record.duration_ns;
    };
    const auto kept =
        columns.begin() + static_cast<std::ptrdiff_t>(std::min(columns.size(), kSlowestColumns));
    std::partial_sort(columns.begin(), kept, columns.end(), slower);
    columns.erase(kept, columns.end());
}

}  // namespace

void StepTimes::add(const StepTimes& more) {
    decision.add(more.decision);
    taken += more.taken;
    taking_ns += more.taking_ns;
}

JournalDigest::JournalDigest(const shm::Plane& plane) : reader_(plane, shm::JournalReader::From::now) {}

void JournalDigest::read(const shm::Plane& plane, const shm::Snapshot& snapshot) {
    keep_sessions(snapshot);
    const shm::JournalPart part = reader_.read(plane);
    count_steps(part.steps);
    std::vector<SlowColumn> columns;
    for (const shm::JournalColumn& column : part.columns) {
        const auto session = sessions_.find(column.record.session_id);
        if (session != sessions_.end()) columns.push_back({session->second.name, column});
    }
    keep_slowest(columns);
    // Copied: the memory that they lie in has room for every column of the reading, a minute of which is
    // megabytes for each sampler.
    readings_.push_back({{columns.begin(), columns.end()}, part.lost});
    if (readings_.size() > kReadingsOfSlowest) readings_.pop_front();
}

void JournalDigest::keep_sessions(const shm::Snapshot& snapshot) {
    std::map<std::uint64_t, Session> kept;
    for (const auto& session : snapshot.sessions) {
        if (!session.fault.empty()) continue;
        Session& entry = kept[session.id];
        const auto known = sessions_.find(session.id);
        if (known != sessions_.end()) entry = std::move(known->second);
        entry.name = session.name;
        entry.last = {};
    }
    sessions_ = std::move(kept);
}

// Times of publication and taking are a client's words: what they contradict counts as nothing.
void JournalDigest::count_steps(const std::vector<proto::StepRecord>& steps) {
    for (const proto::StepRecord& step : steps) {
        const auto session = sessions_.find(step.session_id);
        if (session == sessions_.end()) continue;
        session->second.commits_ns[step.step] = step.commit_ns;
        if (step.ready_ns == 0 || step.commit_ns < step.ready_ns) continue;
        const std::uint64_t took = step.commit_ns - step.ready_ns;
        ++session->second.last.decision.buckets[latency_bucket(took)];
        session->second.last.decision.sum_ns += took;
    }
    for (const proto::StepRecord& step : steps) {
        const auto session = sessions_.find(step.session_id);
        if (session == sessions_.end() || step.slots > step.step) continue;
        const auto before = session->second.commits_ns.find(step.step - step.slots);
        if (before == session->second.commits_ns.end() || step.before_taken_ns < before->second) continue;
        ++session->second.last.taken;
        session->second.last.taking_ns += step.before_taken_ns - before->second;
    }
    for (auto& [id, session] : sessions_) {
        session.all.add(session.last);
        while (session.commits_ns.size() > kCommitsKept) session.commits_ns.erase(session.commits_ns.begin());
    }
}

StepTimes JournalDigest::last_steps(std::uint64_t session) const {
    const auto found = sessions_.find(session);
    return found == sessions_.end() ? StepTimes{} : found->second.last;
}

StepTimes JournalDigest::all_steps(std::uint64_t session) const {
    const auto found = sessions_.find(session);
    return found == sessions_.end() ? StepTimes{} : found->second.all;
}

std::vector<SlowColumn> JournalDigest::slowest() const {
    std::vector<SlowColumn> columns;
    for (const Reading& reading : readings_)
        columns.insert(columns.end(), reading.slowest.begin(), reading.slowest.end());
    keep_slowest(columns);
    return columns;
}

std::uint64_t JournalDigest::lost() const {
    std::uint64_t lost = 0;
    for (const Reading& reading : readings_) lost += reading.lost;
    return lost;
}

}  // namespace croupier::daemon
