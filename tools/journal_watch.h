// An instance's journal, followed from one daemon to the next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shm/column_journal.h"
#include "shm/plane.h"

namespace croupier::tools {

class JournalWatch {
  public:
    // `from`: where the first daemon's journal is begun. Its successors' are read whole.
    JournalWatch(std::string directory, std::string instance, shm::JournalReader::From from);

    // What has come since the last call. An error: there was no daemon yet whose journal could be read, and
    // why.
    shm::Result<shm::JournalPart> read();
    bool daemon_alive() const { return followed_ && followed_->plane.daemon_alive(); }

  private:
    struct Followed {
        shm::Plane plane;
        shm::JournalReader reader;
    };
    // The daemon that has the name now, where it is not the one that is followed.
    shm::Result<bool> follow_successor(shm::JournalPart& part);

    std::string directory_;
    std::string instance_;
    shm::JournalReader::From from_;
    std::optional<Followed> followed_;
};

}  // namespace croupier::tools
