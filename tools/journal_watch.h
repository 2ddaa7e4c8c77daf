// Reads an instance's journal across daemon restarts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shm/column_journal.h"
#include "shm/plane.h"

namespace croupier::tools {

class JournalWatch {
  public:
    // `from`: where to begin in the first daemon's journal. Journals of its successors are read from the
    // start.
    JournalWatch(std::string directory, std::string instance, shm::JournalReader::From from);

    // Returns the records written since the last call. Fails if no daemon's journal could be read so far.
    shm::Result<shm::JournalPart> read();
    bool daemon_alive() const { return followed_ && followed_->plane.daemon_alive(); }

  private:
    struct Followed {
        shm::Plane plane;
        shm::JournalReader reader;
    };
    // Switches to the daemon that has the instance name now, if it is a different one.
    shm::Result<bool> follow_successor(shm::JournalPart& part);

    std::string directory_;
    std::string instance_;
    shm::JournalReader::From from_;
    std::optional<Followed> followed_;
};

}  // namespace croupier::tools
