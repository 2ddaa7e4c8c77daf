// What the checks look at: the host, the configuration, and what could be asked of others, once for all
// checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "host/host_view.h"
#include "proto/geometry.h"
#include "tools/doctor/account.h"
#include "tools/doctor/daemon_answer.h"
#include "tools/doctor/python_answer.h"

namespace croupier::tools::doctor {

struct Request {
    std::string config_file;  // empty: what the daemon that serves this user starts with
    std::string sysroot;
    std::string user;         // of the daemon; empty: see Examined::daemon_user
    std::string engine_user;  // empty: who asks
    std::string python = "python3";
    std::string library;              // libcroupier.so of the engine; empty: where it is usually
    std::string peer;                 // HOST:PORT of another host of the engine; empty: none
    std::uint32_t patience_ms = 800;  // with Python; with the daemon and the cores half of it
    std::uint32_t vocab = 151936;
    std::uint32_t batch = 64;
};

struct Examined {
    Request request;
    host::HostView host;        // of the daemon's process where it lives, else of this one
    proto::DefaultPaths paths;  // of a daemon for which no file is named
    config::LoadResult loaded;
    config::Config config;  // the defaults where none could be loaded
    Account daemon_user;    // of the daemon that lives; else the one asked for, `croupier`, or who asks
    Account engine_user;
    std::vector<std::uint32_t> usable_cores;
    std::vector<std::string> sampler_cores;   // for each sampler, as the daemon would choose them
    std::vector<std::int32_t> sampler_nodes;  // -1: not known
    std::int32_t segment_node = -1;           // of the segments' memory; -1: not known
    DaemonAnswer daemon;
    PythonAnswer python;

    std::uint32_t samplers() const { return static_cast<std::uint32_t>(sampler_cores.size()); }
    std::uint32_t sampler_threads() const { return samplers() * config.samplers.threads_per_sampler; }
    bool daemon_lives() const { return daemon.state == DaemonState::answers; }
};

// Asks the daemon and Python at the same time. Throws std::runtime_error when the request cannot
// be carried out, with what would be right.
Examined examine(const Request& request);

// Bytes of a session of the request's shape, as engines commonly open it.
std::uint64_t session_bytes(const Request& request);

}  // namespace croupier::tools::doctor
