// What the samplers' journals told in each second: how long each session's steps took, and which
// columns took longest.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "shm/column_journal.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

constexpr std::size_t kSlowestColumns = 10;
constexpr std::size_t kSecondsOfSlowest = 60;

struct StepTimes {
    shm::HistogramSnapshot decision;  // logits complete to last commit
    std::uint64_t taken = 0;          // steps of which it is known when the client took them
    std::uint64_t taking_ns = 0;      // last commit to the taking, summed over these

    void add(const StepTimes& more);
};

struct SlowColumn {
    std::string session;  // its name
    shm::JournalColumn column;
};

// Entries that samplers write over before they are read are lost: more than kJournalEntries columns and steps
// of one thread between two readings.
class JournalDigest {
  public:
    explicit JournalDigest(const shm::Plane& plane);

    // Adds what has come since the last reading to the second that is not closed yet.
    void read(const shm::Plane& plane);
    // The snapshot says which sessions there are; others are forgotten.
    void close_second(const shm::Snapshot& snapshot);

    // Of a session, by id: of the last closed second, and of its life under this daemon.
    StepTimes last_steps(std::uint64_t session) const;
    StepTimes all_steps(std::uint64_t session) const;
    // Of the last kSecondsOfSlowest closed seconds, the slowest first.
    std::vector<SlowColumn> slowest() const;
    // Entries that the readings missed: in these seconds, and ever.
    std::uint64_t lost_lately() const;
    std::uint64_t lost() const { return lost_; }

  private:
    struct Session {
        StepTimes now;  // of the second that is not closed yet
        StepTimes last;
        StepTimes all;
        std::map<std::uint64_t, std::uint64_t> commits_ns;  // by step, of the last ones
        std::vector<shm::JournalColumn> slowest;            // of the second that is not closed yet
    };
    struct ClosedSecond {
        std::vector<SlowColumn> slowest;
        std::uint64_t lost = 0;
    };

    void count_steps(const std::vector<proto::StepRecord>& steps);

    shm::JournalReader reader_;
    // By id. A session that is opened has steps before a snapshot names it.
    std::map<std::uint64_t, Session> sessions_;
    std::deque<ClosedSecond> seconds_;
    std::uint64_t lost_ = 0;
    std::uint64_t lost_before_ = 0;  // when the last second was closed
};

}  // namespace croupier::daemon
