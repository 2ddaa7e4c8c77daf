// What `croupier top` shows: made of two looks at an instance, and of what its samplers kept of the last
// seconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shm/column_journal.h"
#include "shm/snapshot.h"

namespace croupier::tools {

// Of durations; nothing of none.
struct Spread {
    std::uint64_t p50_ns = 0;
    std::uint64_t p99_ns = 0;
};

struct SessionLine {
    shm::SessionSnapshot seen;
    double tokens_per_second = 0;
    double steps_per_second = 0;
    double errors_per_second = 0;       // columns that were decided with an error
    std::optional<Spread> logits_wait;  // published to logits complete
    std::optional<Spread> deciding;     // to the last commit
    std::optional<Spread> to_be_taken;  // until the client took it
    std::optional<double> hidden;       // share of the deciding during which nobody waited, of the interval
};

struct SamplerLine {
    shm::SamplerSnapshot seen;
    double busy = 0;  // share of the interval
    double columns_per_second = 0;
};

struct SlowColumn {
    std::string session;
    std::uint32_t sampler = 0;
    proto::ColumnRecord record;
};

struct RankLine {
    std::string session;
    std::uint32_t rank = 0;
    std::optional<double> last_share;  // of the steps of which it was seen which rank was last
    std::optional<Spread> late;        // after all others, where it was the last
    std::uint64_t behind_ns = 0;       // the oldest step that lacks its logits now
};

struct View {
    std::string instance;
    std::string fault;  // not empty: there is no daemon to look at, and why
    bool daemon_alive = false;
    bool daemon_stopped = false;  // by a signal: samplers go on, and nobody looks after them
    std::int32_t daemon_pid = 0;
    std::uint64_t up_ns = 0;
    std::chrono::nanoseconds gone_for{0};  // since the daemon was seen last
    std::optional<Spread> deciding;        // of the steps of all sessions
    std::vector<SessionLine> sessions;
    std::vector<SamplerLine> samplers;
    std::vector<RankLine> ranks;      // those that were last, and those that are behind
    std::vector<SlowColumn> slowest;  // the slowest first
    std::uint64_t lost = 0;           // entries that samplers wrote over before they were read
};

// Of all sessions and samplers.
struct Totals {
    double tokens_per_second = 0;
    double steps_per_second = 0;
    double errors_per_second = 0;
    double busy = 0;  // mean share of the samplers
};
Totals totals_of(const View& view);

class Account {
  public:
    static constexpr std::chrono::seconds kWindow{5};
    static constexpr std::size_t kSlowest = 32;

    explicit Account(std::string instance) : instance_(std::move(instance)) {}

    void add(const shm::JournalPart& part);
    View look(const shm::Result<shm::Snapshot>& snapshot, std::uint64_t now_ns);

  private:
    struct Look {
        std::uint64_t at_ns = 0;
        shm::Snapshot snapshot;
    };
    // Of a step, as far as its times do not contradict each other.
    struct StepTimes {
        std::uint64_t session_id = 0;
        std::uint64_t commit_ns = 0;
        std::uint64_t logits_wait_ns = 0;
        std::uint64_t deciding_ns = 0;
        std::uint8_t last_rank = 0;
        std::uint32_t late_ns = 0;
    };
    struct TakenTime {
        std::uint64_t session_id = 0;
        std::uint64_t taken_ns = 0;
        std::uint64_t waited_ns = 0;
    };
    struct Commit {
        std::uint64_t step = ~0ULL;
        std::uint64_t at_ns = 0;
    };
    using Commits = std::array<Commit, proto::kMaxSlots>;

    void add_step(const proto::StepRecord& step);
    void add_columns(const std::vector<shm::JournalColumn>& columns);
    void forget_before(std::uint64_t ns);
    void forget_other_sessions();
    SessionLine session_line(const shm::SessionSnapshot& seen, double seconds) const;
    SamplerLine sampler_line(const shm::SamplerSnapshot& seen, std::uint32_t threads, double seconds) const;
    void add_ranks(const shm::SessionSnapshot& seen, std::vector<RankLine>& lines) const;
    const shm::SessionSnapshot* before(std::uint64_t session_id) const;
    const shm::SamplerSnapshot* before(const shm::SamplerSnapshot& sampler) const;
    std::vector<SlowColumn> slowest() const;

    std::string instance_;
    std::optional<Look> last_;
    std::optional<std::uint64_t> first_look_ns_;
    std::uint64_t alive_ns_ = 0;  // when the daemon was seen last
    std::uint64_t lost_ = 0;
    std::deque<StepTimes> steps_;
    std::deque<TakenTime> taken_;
    std::deque<shm::JournalColumn> slow_columns_;
    std::map<std::uint64_t, Commits> commits_;    // by session
    std::map<std::uint64_t, std::string> names_;  // of the sessions that were seen
};

}  // namespace croupier::tools
