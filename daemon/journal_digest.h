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
constexpr std::size_t kReadingsOfSlowest = 60;

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

// Entries that samplers write over before they are read are lost: at more than kJournalEntries columns a
// second of one thread it knows a part of them.
class JournalDigest {
  public:
    explicit JournalDigest(const shm::Plane& plane);

    // What has come since the last reading. The snapshot says which sessions there are; those that are gone
    // are forgotten.
    void read(const shm::Plane& plane, const shm::Snapshot& snapshot);

    // Of a session, by id: of the last reading, and of its life under this daemon.
    StepTimes last_steps(std::uint64_t session) const;
    StepTimes all_steps(std::uint64_t session) const;
    // Of the last kReadingsOfSlowest readings, the slowest first.
    std::vector<SlowColumn> slowest() const;
    // Entries that these readings missed.
    std::uint64_t lost() const;

  private:
    struct Session {
        std::string name;
        StepTimes last;
        StepTimes all;
        std::map<std::uint64_t, std::uint64_t> commits_ns;  // by step, of the last ones
    };
    struct Reading {
        std::vector<SlowColumn> slowest;
        std::uint64_t lost = 0;
    };

    void keep_sessions(const shm::Snapshot& snapshot);
    void count_steps(const std::vector<proto::StepRecord>& steps);

    shm::JournalReader reader_;
    std::map<std::uint64_t, Session> sessions_;  // by id
    std::deque<Reading> readings_;
};

}  // namespace croupier::daemon
