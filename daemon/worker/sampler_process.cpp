#include "daemon/worker/sampler_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "daemon/logging.h"
#include "daemon/worker/sampler_end.h"
#include "daemon/worker/segment_channel.h"
#include "daemon/worker/session_rounds.h"
#include "daemon/worker/session_view.h"
#include "daemon/worker/step_worker.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/bell.h"
#include "shm/clock.h"
#include "shm/plane.h"
#include "shm/wait_strategy.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

// Without work expected a sampler wakes this often, to beat its heart.
constexpr std::chrono::milliseconds kIdleSleep{100};
// Between two attempts to attach a session for which there was no memory.
constexpr std::chrono::seconds kAttachAgain{1};

class Sampler {
    using Clock = std::chrono::steady_clock;

  public:
    Sampler(const SamplerOptions& options, shm::Plane plane)
        : options_(options),
          plane_(std::move(plane)),
          worker_(plane_.header(), journals(), options.index, options.threads, options.event_fd,
                  Captures::attach(std::filesystem::path(shm::path_of(options.plane_fd)).parent_path(),
                                   options.instance)),
          wait_(settings()) {}

    void run() {
        auto& entry = this->entry();
        entry.started_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
        entry.heartbeat_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
        // What the one before had derived went with it.
        entry.states.bytes.store(0, std::memory_order_relaxed);
        entry.states.states.store(0, std::memory_order_relaxed);
        // Before the state: who sees a running sampler reads its pid, and the supervisor may not have stored
        // it yet.
        entry.pid.store(::getpid(), std::memory_order_relaxed);
        entry.state.store(proto::SamplerState::running, std::memory_order_release);
        while (!sampler_is_told_to_end()) turn();
    }

  private:
    proto::SamplerEntry& entry() { return plane_.header().samplers[options_.index]; }

    std::vector<shm::JournalWriter> journals() const {
        std::vector<shm::JournalWriter> own;
        const auto all = plane_.journals();
        for (std::uint32_t thread = 0; thread < options_.threads; ++thread)
            own.emplace_back(all[options_.index * options_.threads + thread]);
        return own;
    }

    shm::WaitSettings settings() const {
        const auto& header = plane_.header();
        return {static_cast<shm::WaitMode>(header.wait_mode.load(std::memory_order_relaxed)),
                std::chrono::microseconds(header.spin_us.load(std::memory_order_relaxed)),
                std::chrono::microseconds(header.max_sleep_us.load(std::memory_order_relaxed))};
    }

    void turn() {
        // Before a look at what it is rung for: a ring after that ends the sleep at once.
        bells_.assign(1, shm::listen_to(plane_.header().bell));
        follow_session_table();
        for (const auto& [id, session] : sessions_)
            bells_.push_back(shm::listen_to(session->segment().header().bell));
        const Round round = look();
        const Look& all = round.look;
        std::size_t found = all.decided + (all.busy || round.sat_out ? 1 : 0);
        // When nobody else's column is left to wait for it.
        if (all.suspect) found += decide_suspect();
        bound_states();
        const auto sleep = [&](std::chrono::nanoseconds longest) {
            entry().heartbeat_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
            shm::sleep_on(bells_, options_.index,
                          all.pending ? std::min(longest, all.until_soon) : kIdleSleep);
        };
        wait_.idle(found, sleep, all.soon, !all.own);
        // A spinning sampler must not take the clock at every turn.
        if (++turns_ % 1024 == 0) entry().heartbeat_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
    }

    struct Round {
        Look look;
        bool sat_out = false;  // some session, which is looked at soon
    };
    Round look() {
        Round round;
        if (sessions_.size() == 1) {
            const auto& [id, session] = *sessions_.begin();
            round.look = worker_.look(*session, StepWorker::kEndless);
            report_if_lost(id, *session);
            return round;
        }
        for (auto& [id, session] : sessions_) {
            if (rounds_.sits_out(id)) {
                round.sat_out = true;
                continue;
            }
            const std::uint64_t begin = shm::monotonic_ns();
            const Look one = worker_.look(*session, SessionRounds::kSliceNs);
            const bool worked = one.decided > 0 || one.busy;
            rounds_.note(id, worked ? shm::monotonic_ns() - begin : 0);
            report_if_lost(id, *session);
            round.look.add(one);
        }
        const std::uint64_t now = shm::monotonic_ns();
        rounds_.end(now, round.sat_out ? until_due(now) : SessionRounds::kNever);
        return round;
    }

    // As far as steps before tell: when this sampler has columns to decide of a session that did not sit out.
    std::uint64_t until_due(std::uint64_t now) {
        std::uint64_t least = SessionRounds::kNever;
        for (auto& [id, session] : sessions_) {
            const shm::LogitsForecast& forecast = session->forecast();
            if (rounds_.sits_out(id)) continue;
            if (forecast.due(now)) return 0;
            if (const std::uint64_t until = forecast.until_due(now); until > 0)
                least = std::min(least, until);
        }
        return least;
    }

    // What this process has of the segment is gone for good, whatever becomes of the file.
    void report_if_lost(std::uint64_t id, const SessionView& session) {
        if (!session.segment().mapping().lost()) return;
        for (auto& row : plane_.header().sessions) {
            if (row.session_id.load(std::memory_order_acquire) != id) continue;
            if (row.lost.exchange(id, std::memory_order_release) == id) return;
            event_log::write(Event::segment_lost, {{"session", session.segment().name()}, {"session_id", id}},
                             "session {} ({}): pages of its segment are gone", session.segment().name(), id);
        }
    }

    std::size_t decide_suspect() {
        for (auto& [id, session] : sessions_) {
            if (session->served() && worker_.decide_suspect(*session)) return 1;
        }
        return 0;
    }

    void bound_states() {
        const std::uint64_t limit = plane_.header().state_limit_bytes.load(std::memory_order_relaxed);
        if (entry().states.bytes.load(std::memory_order_relaxed) <= limit) return;
        std::vector<SequenceStates*> all;
        for (auto& [id, session] : sessions_) all.push_back(&session->states());
        drop_least_recent(all, limit);
    }

    void follow_session_table() {
        const auto& header = plane_.header();
        // acquire: pairs with the supervisor's release after it changed an entry.
        const std::uint64_t version = header.table_version.load(std::memory_order_acquire);
        if (version == table_seen_ && !(attach_again_ && Clock::now() >= *attach_again_)) return;
        attach_again_.reset();
        receive_segments(version);
        std::map<std::uint64_t, std::unique_ptr<SessionView>> kept;
        for (const auto& row : header.sessions) {
            const std::uint64_t id = row.session_id.load(std::memory_order_acquire);
            if (id == 0) continue;
            if (auto known = sessions_.find(id); known != sessions_.end()) {
                kept.emplace(id, std::move(known->second));
            } else if (auto view = attach(id)) {
                kept.emplace(id, std::move(view));
            }
        }
        sessions_ = std::move(kept);
        std::set<std::uint32_t> vocabularies;
        for (const auto& [id, session] : sessions_) vocabularies.insert(session->segment().geometry().vocab);
        worker_.keep_room_of(vocabularies);
        wait_.configure(settings());
        table_seen_ = version;
    }

    // A session is sent before the table shows it: one that is not shown was sent for a later table, or has
    // ended since.
    void receive_segments(std::uint64_t version) {
        const auto shown = [this](std::uint64_t id) {
            const auto& rows = plane_.header().sessions;
            return std::any_of(std::begin(rows), std::end(rows), [id](const auto& row) {
                return row.session_id.load(std::memory_order_acquire) == id;
            });
        };
        std::erase_if(received_,
                      [&](const auto& kept) { return kept.second.version != version && !shown(kept.first); });
        while (auto segment = receive_segment(options_.segments_fd))
            received_[segment->session_id] = {std::move(segment->file), version};
    }

    // One session for which there is no memory must not end the others.
    shm::Result<std::unique_ptr<SessionView>> view_of(const shm::FileDescriptor& file) {
        try {
            CROUPIER_TRY_VALUE(segment, shm::Segment::attach(file.get(), shm::Access::read_write));
            auto view = SessionView::make(std::move(segment), options_.threads, entry().states);
            if (view) worker_.make_room(*view.value());
            return view;
        } catch (const std::bad_alloc&) {
            return shm::fail(shm::Errc::no_memory, "out of memory; trying again in a second");
        }
    }

    std::unique_ptr<SessionView> attach(std::uint64_t id) {
        const auto received = received_.find(id);
        // The supervisor had no room to send it: it changes the table's version when it has sent it.
        if (received == received_.end()) return nullptr;
        auto view = view_of(received->second.file);
        if (!view) {
            event_log::write(Event::session_not_served, {{"sampler", options_.index}, {"session_id", id}},
                             "cannot serve session {}: {}", id, view.error().message);
            if (view.error().code == shm::Errc::no_memory) attach_again_ = Clock::now() + kAttachAgain;
            return nullptr;
        }
        received_.erase(received);
        // The header is whoever's may write to the segment.
        if (view.value()->id() != id) return nullptr;
        return std::move(view).value();
    }

    SamplerOptions options_;
    shm::Plane plane_;
    std::vector<shm::HeardBell> bells_;  // the plane's and each session's
    StepWorker worker_;
    SessionRounds rounds_;
    shm::WaitStrategy wait_;
    std::uint64_t table_seen_ = ~0ULL;
    std::uint64_t turns_ = 0;
    std::optional<Clock::time_point> attach_again_;
    struct Received {
        shm::FileDescriptor file;
        std::uint64_t version = 0;  // of the table, when it came
    };
    std::map<std::uint64_t, Received> received_;  // until they are attached
    std::map<std::uint64_t, std::unique_ptr<SessionView>> sessions_;
};

}  // namespace

int run_sampler(const SamplerOptions& options) {
    end_as_samplers_do(options.supervisor_pid);
    // It is started by /proc/self/exe, so that `ps -e`, `top` and the kernel's log would call it "exe".
    ::prctl(PR_SET_NAME, ("croupierd-" + std::to_string(options.index)).c_str());
    follow_log_settings();
    shm::survive_lost_pages();
    if (!options.cores.empty() && !host::bind_this_process(options.cores)) {
        event_log::write(Event::sampler_not_pinned, {{"sampler", options.index}, {"cores", options.cores}},
                         "sampler {} could not be pinned to cores {}", options.index, options.cores);
    }
    auto plane = shm::Plane::attach(options.plane_fd, shm::Access::read_write);
    if (!plane) {
        const std::string& why = plane.error().message;
        event_log::write(Event::sampler_failed, {{"sampler", options.index}, {"reason", why}},
                         "sampler {}: {}", options.index, why);
        return 1;
    }
    if (!plane.value().hold_sampler(options.index)) {
        event_log::write(Event::sampler_failed, {{"sampler", options.index}, {"reason", "already running"}},
                         "sampler {} is already running", options.index);
        return 1;
    }
    Sampler(options, std::move(plane).value()).run();
    return 0;
}

}  // namespace croupier::daemon
