// What a daemon leaves to its successor of a session, where no client can change it: a file beside the
// segment.
#pragma once

#include <string>

#include "shm/error.h"

namespace croupier::shm {

struct SessionRecord {
    std::string name;
    std::string owner;  // who opened it, and who else may act for it
};

std::string record_path(const std::string& segment_path);

Result<bool> write_record(const std::string& segment_path, const SessionRecord& record);
Result<SessionRecord> read_record(const std::string& segment_path);

// The segment and its record.
void remove_session_files(const std::string& segment_path);

}  // namespace croupier::shm
