// A session in a directory of its own under /dev/shm, made as the daemon makes one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/schedule_publisher.h"
#include "shm/segment.h"
#include "shm/step_claims.h"

namespace croupier::shm {

class TestDirectory {
  public:
    TestDirectory();
    ~TestDirectory();
    TestDirectory(const TestDirectory&) = delete;
    TestDirectory& operator=(const TestDirectory&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

proto::Geometry small_geometry();
SegmentSpec spec_in(const TestDirectory& directory, const proto::Geometry& geometry);

class TestSession {
  public:
    explicit TestSession(const proto::Geometry& geometry = small_geometry());

    // The daemon's own mapping; it holds Role::daemon.
    Segment& daemon() { return daemon_; }
    const std::string& path() const { return daemon_.path(); }
    // By a new open file, as another process would.
    Segment open() const;
    std::uint64_t count(proto::SessionCounter which) { return daemon_.header().counter(which).load(); }

  private:
    TestDirectory directory_;
    Segment daemon_;
};

// What a step asks and is answered, so that a mixture of two steps can be told from either.
std::vector<proto::ScheduleColumn> columns_of(std::uint64_t step, std::uint32_t count);
proto::Decision decision_for(const proto::ScheduleColumn& column);
bool same(const proto::ScheduleColumn& a, const proto::ScheduleColumn& b);
bool same(const proto::Decision& a, const proto::Decision& b);

// As a live sampler does, which comes to suspected columns too.
bool claim(const StepClaims& claims, std::uint32_t column, std::uint32_t owner);
// Decides what is left of the step as a live sampler would; returns how many columns
// that were.
std::uint32_t decide_rest(const Segment& segment, std::uint64_t step, std::uint32_t columns,
                          std::uint32_t owner);
// Takes every step in flight of `client`; true when each was complete and held the decisions asked for.
bool take_all(SchedulePublisher& client, const Segment& segment);

}  // namespace croupier::shm
