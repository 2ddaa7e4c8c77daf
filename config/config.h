// The daemon's configuration, checked. What each key means, and its range, is in schema.cpp;
// the initial values here are the defaults of the host's daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/default_paths.h"
#include "proto/geometry.h"
#include "proto/hot_set.h"

namespace croupier::config {

enum class HugePages { off, attempt, require };  // in YAML: off, try, require
enum class Wait { spin, adaptive, sleep };
enum class LogLevel { trace, debug, info, warn, error };
enum class LogFormat { text, json };

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
constexpr std::uint64_t gib = 1024 * mib;
constexpr std::uint64_t tib = 1024 * gib;

struct Shm {
    std::string dir = proto::DefaultPaths().shm_dir;
    std::uint32_t mode = 0660;
    std::string group;  // empty: the daemon's own
    HugePages hugepages = HugePages::off;
    std::optional<std::uint32_t> node;  // none: that of most samplers
    bool operator==(const Shm&) const = default;
};

struct Samplers {
    std::uint32_t count = 0;  // 0: one a core but one, at least one
    std::uint32_t threads_per_sampler = 1;
    std::vector<std::uint32_t> cores;  // ascending; empty: auto
    bool pin = true;
    Wait wait = Wait::adaptive;
    std::uint32_t spin_us = 20;
    std::uint32_t max_sleep_us = 200;
    std::uint32_t heartbeat_timeout_ms = 10000;
    std::uint32_t restart_backoff_ms = 10;
    std::uint64_t max_state_bytes = 512 * mib;
    bool operator==(const Samplers&) const = default;
};

struct Sessions {
    std::uint32_t max = 16;
    std::uint64_t max_segment_bytes = 16 * gib;
    std::uint64_t max_total_bytes = 64 * gib;
    // Of a thousand requests, each with seven drafts.
    std::uint32_t max_batch = 8192;
    // Beyond any model's. A column of fp32 logits may take some 70 ns a token, and others wait for it.
    std::uint32_t max_vocab = 320000;
    std::uint32_t max_sequences = 8192;
    std::uint32_t max_sequence_tokens = 262144;
    // More than anyone reads of each token. The sort of 65,536 takes as long as some forty columns.
    std::uint32_t max_support = 4096;
    std::uint32_t max_list_tokens = 65536;
    std::uint32_t reattach_grace_ms = 10000;
    std::uint32_t drain_timeout_ms = 10000;
    std::uint32_t step_deadline_ms = 0;  // 0: none
    bool operator==(const Sessions&) const = default;
};

struct HotSet {
    std::uint32_t size = 0;  // 0: each row chooses
    bool adapt = false;
    std::uint32_t least = 0;
    std::uint32_t most = proto::kHotSizes.back();
    std::uint32_t hysteresis_percent = 3;
    bool operator==(const HotSet&) const = default;
};

struct Curve {
    std::string secret_key_file;       // empty: no CURVE
    std::string authorized_keys_file;  // empty: no CURVE
    bool operator==(const Curve&) const = default;
};

struct Control {
    std::string endpoint = proto::DefaultPaths().control_endpoint();
    std::uint32_t ipc_mode = 0660;
    std::uint64_t max_message_bytes = 64 * mib;
    std::uint32_t connections_per_peer = 256;
    Curve curve;
    bool operator==(const Control&) const = default;
};

struct Metrics {
    std::string listen = "127.0.0.1:9464";  // host:port, or off
    std::vector<std::string> hosts;         // that it answers to besides addresses and its own names
    bool explain = false;
    std::string tokenizer;  // empty: none
    bool operator==(const Metrics&) const = default;
};

struct Log {
    LogLevel level = LogLevel::info;
    LogFormat format = LogFormat::text;
    bool operator==(const Log&) const = default;
};

struct Config {
    std::string instance = "default";
    std::string run_dir = proto::DefaultPaths().run_dir;
    Shm shm;
    Samplers samplers;
    Sessions sessions;
    HotSet hot_set;
    Control control;
    Metrics metrics;
    Log log;
    bool operator==(const Config&) const = default;
};

// Where its user says nothing: a user's own daemon has paths of its own.
Config default_config(const proto::DefaultPaths& paths = proto::default_paths());

}  // namespace croupier::config
