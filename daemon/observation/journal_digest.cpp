#include "daemon/observation/journal_digest.h"

#include <algorithm>
#include <utility>

#include "daemon/worker/stage_clock.h"
#include "proto/geometry.h"

namespace croupier::daemon {
namespace {

// More than a session has in flight: another thread's journal may tell of a step's end later.
constexpr std::size_t kCommitsKept = 2 * std::size_t{proto::kMaxSlots};

constexpr auto is_slower = [](const shm::JournalColumn& a, const shm::JournalColumn& b) {
    return a.record.duration_ns > b.record.duration_ns;
};

// A heap of at most kSlowestColumns, the fastest of them in front: a second may have hundreds of thousands.
void keep_if_slow(std::vector<shm::JournalColumn>& slowest, const shm::JournalColumn& column) {
    if (slowest.size() == kSlowestColumns) {
        if (!is_slower(column, slowest.front())) return;
        std::pop_heap(slowest.begin(), slowest.end(), is_slower);
        slowest.pop_back();
    }
    slowest.push_back(column);
    std::push_heap(slowest.begin(), slowest.end(), is_slower);
}

void keep_slowest(std::vector<SlowColumn>& columns) {
    const auto kept =
        columns.begin() + static_cast<std::ptrdiff_t>(std::min(columns.size(), kSlowestColumns));
    std::partial_sort(columns.begin(), kept, columns.end(),
                      [](const SlowColumn& a, const SlowColumn& b) { return is_slower(a.column, b.column); });
    columns.erase(kept, columns.end());
}

}  // namespace

void StepTimes::add(const StepTimes& more) {
    decision.add(more.decision);
    taken += more.taken;
    taking_ns += more.taking_ns;
}

JournalDigest::JournalDigest(const shm::Plane& plane) : reader_(plane, shm::JournalReader::From::now) {}

void JournalDigest::read(const shm::Plane& plane) {
    const shm::JournalPart part = reader_.read(plane);
    lost_ += part.lost;
    count_steps(part.steps);
    for (const shm::JournalColumn& column : part.columns)
        keep_if_slow(sessions_[column.record.session_id].slowest, column);
}

void JournalDigest::close_second(const shm::Snapshot& snapshot) {
    ClosedSecond second{{}, lost_ - std::exchange(lost_before_, lost_)};
    std::map<std::uint64_t, Session> kept;
    for (const auto& session : snapshot.sessions) {
        if (!session.fault.empty()) continue;
        Session& entry = kept[session.id];
        const auto known = sessions_.find(session.id);
        if (known != sessions_.end()) entry = std::move(known->second);
        entry.last = std::exchange(entry.now, {});
        entry.all.add(entry.last);
        for (const shm::JournalColumn& column : std::exchange(entry.slowest, {}))
            second.slowest.push_back({session.name, column});
    }
    sessions_ = std::move(kept);
    keep_slowest(second.slowest);
    second.slowest.shrink_to_fit();
    seconds_.push_back(std::move(second));
    if (seconds_.size() > kSecondsOfSlowest) seconds_.pop_front();
}

// Times of publication and taking are a client's words: what they contradict counts as nothing.
void JournalDigest::count_steps(const std::vector<proto::StepRecord>& steps) {
    for (const proto::StepRecord& step : steps) {
        Session& session = sessions_[step.session_id];
        session.commits_ns[step.step] = step.commit_ns;
        if (step.ready_ns == 0 || step.commit_ns < step.ready_ns) continue;
        const std::uint64_t took = step.commit_ns - step.ready_ns;
        ++session.now.decision.buckets[latency_bucket(took)];
        session.now.decision.sum_ns += took;
    }
    for (const proto::StepRecord& step : steps) {
        Session& session = sessions_[step.session_id];
        if (step.slots > step.step) continue;
        const auto before = session.commits_ns.find(step.step - step.slots);
        if (before == session.commits_ns.end() || step.before_taken_ns < before->second) continue;
        ++session.now.taken;
        session.now.taking_ns += step.before_taken_ns - before->second;
    }
    for (auto& [id, session] : sessions_) {
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
    for (const ClosedSecond& second : seconds_)
        columns.insert(columns.end(), second.slowest.begin(), second.slowest.end());
    keep_slowest(columns);
    return columns;
}

std::uint64_t JournalDigest::lost_lately() const {
    std::uint64_t lost = 0;
    for (const ClosedSecond& second : seconds_) lost += second.lost;
    return lost;
}

}  // namespace croupier::daemon
