// croupierd as a stand-in, with its segment as an open file, as whoever starts it has to give it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "testing/child_process.h"

namespace croupier::testing {

// `more`: arguments, and the descriptors that they name have to be inheritable.
inline ChildProcess start_stand_in(const std::string& segment_path, const std::string& log_path,
                                   const std::string& program = CROUPIERD_PATH,
                                   const std::vector<std::string>& more = {}) {
    const int segment = ::open(segment_path.c_str(), O_RDWR);
    std::vector<std::string> words = {program, "--stand-in-fd", std::to_string(segment), "--samplers", "2"};
    words.insert(words.end(), more.begin(), more.end());
    ChildProcess started = ChildProcess::execute(words, log_path, SIGKILL);
    ::close(segment);
    return started;
}

}  // namespace croupier::testing
