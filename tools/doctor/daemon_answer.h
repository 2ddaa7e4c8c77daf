// The daemon as it answers: whether it does, who it is, and what it says of itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace croupier::tools::doctor {

enum class DaemonState {
    unasked,  // not of the real host, or over TCP, where it would want a key
    answers,
    absent,     // nobody listens
    forbidden,  // who asks may not connect
    silent,     // somebody listens and does not answer
    blind,      // it answers that its own files are missing, which whoever observes it reads
    other,      // what answers speaks another protocol, or refuses
};

struct SamplerAnswer {
    bool alive = false;
    pid_t pid = 0;
    std::uint32_t restarts = 0;
};

struct DaemonAnswer {
    DaemonState state = DaemonState::unasked;
    std::string error;         // why there is no answer
    std::optional<pid_t> pid;  // of who listens, as the kernel says; none where it is not seen from here
    std::optional<uid_t> uid;
    std::string version;  // empty: of a build that does not say
    std::string layouts;
    std::vector<SamplerAnswer> samplers;
    std::vector<pid_t> clients;  // of the sessions that who asks may know
    std::size_t sessions = 0;
};

// A daemon answers in some milliseconds, at the worst after the tens that its housekeeping takes.
DaemonAnswer ask_daemon(const config::Config& config, std::chrono::milliseconds patience);

}  // namespace croupier::tools::doctor
