// What happened in each of the last seconds, by the snapshots taken at their ends: the page draws it, and
// metrics on which an alarm hangs are taken over it instead of over a session's whole life.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/observation/journal_digest.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

constexpr std::size_t kSecondsKept = 900;
constexpr std::uint64_t kAlarmWindowNs = 300'000'000'000;

// Two clocks: one to take differences of, one to show.
struct Moment {
    std::uint64_t monotonic_ns = 0;
    std::uint64_t unix_ms = 0;

    static Moment now();
};

using SessionCounts = std::array<std::uint64_t, static_cast<std::size_t>(proto::SessionCounter::count_)>;
using StageCounts = std::array<shm::HistogramSnapshot, static_cast<std::size_t>(proto::Stage::count_)>;

// What one session counted in a second, and how it stood at the end of it.
struct SessionSecond {
    std::string name;
    SessionCounts counts{};
    std::uint64_t steps_in_flight = 0;
    std::uint64_t steps_decided_not_taken = 0;
    std::uint64_t live_sequences = 0;
    std::uint64_t latest_rank_ns = 0;  // how far the rank is behind that is farthest behind
    StepTimes steps;
};

struct Second {
    std::uint64_t number = 0;  // of the daemon's life: 1, 2, ...
    Moment end;
    std::uint64_t length_ns = 0;  // more than a second where the daemon was kept from it
    std::vector<SessionSecond> sessions;
    std::vector<std::uint64_t> sampler_busy_ns;
    StageCounts stages;  // of all samplers
};

class RecentMinutes {
  public:
    explicit RecentMinutes(Moment began) : began_(began) {}

    // The first one only says from where to count: sessions may have been adopted. Later ones begin at
    // nothing.
    void add(const shm::Snapshot& snapshot, const JournalDigest& journal, Moment now);

    // Of all seconds that end within `window_ns` before the last one's end: what each session counted, by
    // name.
    std::map<std::string, SessionCounts> sessions(std::uint64_t window_ns) const;
    StageCounts stages(std::uint64_t window_ns) const;

    // The times of each session's steps, by name.
    std::map<std::string, StepTimes> steps(std::uint64_t window_ns) const;

    Moment began() const { return began_; }
    // Of the last second; 0: there was none yet.
    std::uint64_t last_number() const { return next_number_ - 1; }
    const std::deque<Second>& seconds() const { return seconds_; }

  private:
    void add_sessions(const shm::Snapshot& snapshot, const JournalDigest& journal, Second& second);
    void add_samplers(const shm::Snapshot& snapshot, Second& second);
    // The first of those that end within the window.
    std::deque<Second>::const_iterator begin_of(std::uint64_t window_ns) const;

    Moment began_;
    std::optional<Moment> last_;
    std::uint64_t next_number_ = 1;
    // By path, as seen last; nullopt: it could not be read.
    std::map<std::string, std::optional<SessionCounts>> session_counts_;
    std::vector<std::uint64_t> busy_ns_;
    std::vector<StageCounts> stages_;  // by sampler
    std::deque<Second> seconds_;       // at most kSecondsKept; 64 sessions make 40 MB of it
};

// Of the counts of any time: nullopt where there was nothing to take a share or a mean of.
std::optional<double> overlap_ratio(const SessionCounts& counts);
std::optional<double> hot_acceptance_ratio(const SessionCounts& counts);
std::optional<double> mean_column_delay_seconds(const SessionCounts& counts);
// Of one of the counters that sum up a step's time.
std::optional<double> mean_step_seconds(const SessionCounts& counts, proto::SessionCounter time);

}  // namespace croupier::daemon
