#include "tools/top/account.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/instance_words.h"

namespace croupier::tools {

using proto::SessionCounter;

namespace {

std::optional<Spread> spread_of(std::vector<std::uint64_t> durations) {
    if (durations.empty()) return std::nullopt;
    const auto at = [&](double share) {
        const auto place = static_cast<std::size_t>(share * static_cast<double>(durations.size() - 1));
        std::nth_element(durations.begin(), durations.begin() + static_cast<std::ptrdiff_t>(place),
                         durations.end());
        return durations[place];
    };
    return Spread{at(0.50), at(0.99)};
}

template <typename Items, typename Pick>
std::optional<Spread> spread_of(const Items& items, std::uint64_t session_id, Pick pick) {
    std::vector<std::uint64_t> durations;
    for (const auto& item : items) {
        if (item.session_id == session_id) durations.push_back(pick(item));
    }
    return spread_of(std::move(durations));
}

double rate(std::uint64_t now, std::uint64_t before, double seconds) {
    return seconds > 0 && now > before ? static_cast<double>(now - before) / seconds : 0.0;
}

bool slower(const shm::JournalColumn& a, const shm::JournalColumn& b) {
    return a.record.duration_ns > b.record.duration_ns;
}

}  // namespace

Totals totals_of(const View& view) {
    Totals totals;
    for (const SessionLine& session : view.sessions) {
        totals.tokens_per_second += session.tokens_per_second;
        totals.steps_per_second += session.steps_per_second;
        totals.errors_per_second += session.errors_per_second;
    }
    for (const SamplerLine& sampler : view.samplers)
        totals.busy += sampler.busy / static_cast<double>(view.samplers.size());
    return totals;
}

void Account::add(const shm::JournalPart& part) {
    lost_ += part.lost;
    // Samplers are read one after the other, and a session's steps are committed by any of them.
    std::vector<proto::StepRecord> steps = part.steps;
    std::sort(steps.begin(), steps.end(),
              [](const auto& a, const auto& b) { return a.commit_ns < b.commit_ns; });
    for (const proto::StepRecord& step : steps) add_step(step);
    add_columns(part.columns);
}

void Account::add_step(const proto::StepRecord& step) {
    Commits& commits = commits_[step.session_id];
    const std::uint64_t before = step.step - step.slots;
    const Commit& committed = commits[before % commits.size()];
    if (step.before_taken_ns != 0 && step.step >= step.slots && committed.step == before &&
        step.before_taken_ns >= committed.at_ns) {
        taken_.push_back({step.session_id, step.before_taken_ns, step.before_taken_ns - committed.at_ns});
    }
    commits[step.step % commits.size()] = {step.step, step.commit_ns};
    // A void step's logits need not have come.
    if (step.ready_ns < step.published_ns || step.commit_ns < step.ready_ns) return;
    steps_.push_back({step.session_id, step.commit_ns, step.ready_ns - step.published_ns,
                      step.commit_ns - step.ready_ns, step.last_rank, step.last_rank_late_ns});
}

// Of each reading the slowest: those of the window are among them.
void Account::add_columns(const std::vector<shm::JournalColumn>& columns) {
    std::vector<shm::JournalColumn> slowest(std::min(columns.size(), kSlowest));
    std::partial_sort_copy(columns.begin(), columns.end(), slowest.begin(), slowest.end(), slower);
    slow_columns_.insert(slow_columns_.end(), slowest.begin(), slowest.end());
}

void Account::forget_before(std::uint64_t ns) {
    const auto drop = [](auto& items, auto is_old) {
        items.erase(std::remove_if(items.begin(), items.end(), is_old), items.end());
    };
    drop(steps_, [&](const StepTimes& step) { return step.commit_ns < ns; });
    drop(taken_, [&](const TakenTime& taken) { return taken.taken_ns < ns; });
    drop(slow_columns_, [&](const shm::JournalColumn& column) { return column.record.begin_ns < ns; });
}

const shm::SessionSnapshot* Account::before(std::uint64_t session_id) const {
    if (!last_) return nullptr;
    for (const auto& session : last_->snapshot.sessions) {
        if (session.id == session_id && session.fault.empty()) return &session;
    }
    return nullptr;
}

const shm::SamplerSnapshot* Account::before(const shm::SamplerSnapshot& sampler) const {
    if (!last_ || sampler.index >= last_->snapshot.samplers.size()) return nullptr;
    const shm::SamplerSnapshot& seen = last_->snapshot.samplers[sampler.index];
    // Another daemon's began again from 0.
    return seen.columns <= sampler.columns && seen.busy_ns <= sampler.busy_ns ? &seen : nullptr;
}

SessionLine Account::session_line(const shm::SessionSnapshot& seen, double seconds) const {
    SessionLine line;
    line.seen = seen;
    if (!seen.fault.empty()) return line;
    line.logits_wait = spread_of(steps_, seen.id, [](const auto& step) { return step.logits_wait_ns; });
    line.deciding = spread_of(steps_, seen.id, [](const auto& step) { return step.deciding_ns; });
    line.to_be_taken = spread_of(taken_, seen.id, [](const auto& taken) { return taken.waited_ns; });
    const shm::SessionSnapshot* const past = before(seen.id);
    if (past == nullptr) return line;
    const auto grown = [&](SessionCounter which) {
        const std::uint64_t now = seen.counter(which);
        return now > past->counter(which) ? now - past->counter(which) : 0;
    };
    line.tokens_per_second = rate(grown(SessionCounter::columns_decided), 0, seconds);
    line.steps_per_second = rate(grown(SessionCounter::steps_taken), 0, seconds);
    line.errors_per_second = rate(grown(SessionCounter::columns_failed), 0, seconds);
    const auto decision = static_cast<double>(grown(SessionCounter::step_decision_ns));
    const auto exposed = static_cast<double>(grown(SessionCounter::exposed_ns));
    if (decision > 0) line.hidden = std::max(0.0, 1.0 - exposed / decision);
    return line;
}

SamplerLine Account::sampler_line(const shm::SamplerSnapshot& seen, std::uint32_t threads,
                                  double seconds) const {
    SamplerLine line;
    line.seen = seen;
    const shm::SamplerSnapshot* const past = before(seen);
    if (past == nullptr) return line;
    line.columns_per_second = rate(seen.columns, past->columns, seconds);
    line.busy = std::min(1.0, rate(seen.busy_ns, past->busy_ns, seconds) * 1e-9 / std::max(threads, 1U));
    return line;
}

void Account::add_ranks(const shm::SessionSnapshot& seen, std::vector<RankLine>& lines) const {
    std::map<std::uint32_t, std::vector<std::uint64_t>> late;
    std::size_t known = 0;
    for (const StepTimes& step : steps_) {
        if (step.session_id != seen.id || step.last_rank == 0) continue;
        late[step.last_rank - 1U].push_back(step.late_ns);
        ++known;
    }
    for (std::uint32_t rank = 0; rank < seen.rank_behind_ns.size(); ++rank) {
        RankLine line;
        line.session = seen.name;
        line.rank = rank;
        line.behind_ns = seen.rank_behind_ns[rank];
        if (const auto found = late.find(rank); found != late.end()) {
            line.last_share = static_cast<double>(found->second.size()) / static_cast<double>(known);
            line.late = spread_of(found->second);
        }
        // Of one rank alone nobody is later than another: its wait is the session's.
        const bool shown = seen.rank_behind_ns.size() > 1 && (line.late || line.behind_ns > 0);
        if (shown) lines.push_back(line);
    }
}

// Sessions come and go, and `croupier top` may stay for months.
void Account::forget_other_sessions() {
    std::set<std::uint64_t> kept;
    for (const auto& session : last_->snapshot.sessions) kept.insert(session.id);
    std::erase_if(commits_, [&](const auto& of) { return !kept.contains(of.first); });
    for (const auto& column : slow_columns_) kept.insert(column.record.session_id);
    std::erase_if(names_, [&](const auto& of) { return !kept.contains(of.first); });
}

std::vector<SlowColumn> Account::slowest() const {
    std::vector<shm::JournalColumn> columns(std::min(slow_columns_.size(), kSlowest));
    std::partial_sort_copy(slow_columns_.begin(), slow_columns_.end(), columns.begin(), columns.end(),
                           slower);
    std::vector<SlowColumn> named;
    for (const auto& [sampler, thread, record] : columns) {
        const auto name = names_.find(record.session_id);
        named.push_back(
            {name != names_.end() ? name->second : std::to_string(record.session_id), sampler, record});
    }
    return named;
}

View Account::look(const shm::Result<shm::Snapshot>& snapshot, std::uint64_t now_ns) {
    const auto window = static_cast<std::uint64_t>(std::chrono::nanoseconds(kWindow).count());
    forget_before(now_ns > window ? now_ns - window : 0);
    if (!first_look_ns_) first_look_ns_ = now_ns;
    View view;
    view.instance = instance_;
    view.lost = std::exchange(lost_, 0);
    if (!snapshot) {
        view.fault = inspection_error(instance_, snapshot.error());
    } else {
        const shm::Snapshot& seen = snapshot.value();
        view.daemon_alive = seen.daemon_alive;
        view.daemon_pid = seen.daemon_pid;
        view.up_ns = seen.up_ns;
        const double seconds = last_ ? static_cast<double>(now_ns - last_->at_ns) * 1e-9 : 0.0;
        for (const auto& session : seen.sessions) {
            names_[session.id] = session.name;
            view.sessions.push_back(session_line(session, seconds));
            add_ranks(session, view.ranks);
        }
        for (const auto& sampler : seen.samplers)
            view.samplers.push_back(sampler_line(sampler, seen.threads_per_sampler, seconds));
        last_ = Look{now_ns, seen};
        forget_other_sessions();
    }
    view.slowest = slowest();
    std::vector<std::uint64_t> deciding;
    for (const StepTimes& step : steps_) deciding.push_back(step.deciding_ns);
    view.deciding = spread_of(std::move(deciding));
    if (view.daemon_alive) alive_ns_ = now_ns;
    view.gone_for = std::chrono::nanoseconds(now_ns - std::max(alive_ns_, *first_look_ns_));
    return view;
}

}  // namespace croupier::tools
