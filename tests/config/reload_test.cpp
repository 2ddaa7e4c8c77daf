#include "config/reload.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "config/schema.h"

namespace croupier::config {

namespace {

Config changed_everywhere() {
    Config config;
    config.instance = "other";
    config.run_dir = "/other";
    config.shm = {
        .dir = "/other", .mode = 0600, .group = "other", .hugepages = HugePages::require, .node = 1};
    config.samplers = {.count = 9,
                       .threads_per_sampler = 9,
                       .cores = {9},
                       .pin = false,
                       .wait = Wait::sleep,
                       .spin_us = 9,
                       .max_sleep_us = 9,
                       .heartbeat_timeout_ms = 999,
                       .restart_backoff_ms = 9,
                       .max_state_bytes = 9 * mib};
    config.sessions = {.max = 9,
                       .max_segment_bytes = 9 * mib,
                       .max_total_bytes = 9 * gib,
                       .max_batch = 9,
                       .max_vocab = 9,
                       .max_sequences = 9,
                       .max_sequence_tokens = 9,
                       .max_support = 9,
                       .max_list_tokens = 9,
                       .reattach_grace_ms = 9,
                       .drain_timeout_ms = 9,
                       .step_deadline_ms = 9};
    config.hot_set = {.size = 8192, .adapt = true, .least = 1024, .most = 65536, .hysteresis_percent = 9};
    config.control = {.endpoint = "ipc:///other",
                      .ipc_mode = 0600,
                      .max_message_bytes = 9 * mib,
                      .connections_per_peer = 9,
                      .curve = {.secret_key_file = "/s", .authorized_keys_file = "/a"}};
    config.metrics.listen = "off";
    config.metrics.hosts = {"other"};
    config.metrics.explain = true;
    config.metrics.tokenizer = "/t.json";
    config.log = {.level = LogLevel::error, .format = LogFormat::json};
    return config;
}

}  // namespace

TEST_CASE("nothing is to be restarted for the same configuration") {
    CHECK(unreloadable_changes(Config{}, Config{}).empty());
    CHECK(reloaded(Config{}, Config{}) == Config{});
}

TEST_CASE("a reload takes the reloadable keys, and only those") {
    const Config running;
    const Config wanted = changed_everywhere();
    Config expected = running;
    expected.sessions = wanted.sessions;
    expected.hot_set = wanted.hot_set;
    expected.log = wanted.log;
    expected.control.connections_per_peer = wanted.control.connections_per_peer;
    expected.samplers.spin_us = wanted.samplers.spin_us;
    expected.samplers.max_sleep_us = wanted.samplers.max_sleep_us;
    expected.samplers.heartbeat_timeout_ms = wanted.samplers.heartbeat_timeout_ms;
    expected.samplers.restart_backoff_ms = wanted.samplers.restart_backoff_ms;
    expected.samplers.max_state_bytes = wanted.samplers.max_state_bytes;
    CHECK(reloaded(running, wanted) == expected);
}

TEST_CASE("the changed keys that take a restart are named") {
    const std::vector<std::string> expected{"instance",
                                            "run_dir",
                                            "shm.dir",
                                            "shm.mode",
                                            "shm.group",
                                            "shm.hugepages",
                                            "shm.node",
                                            "samplers.count",
                                            "samplers.threads_per_sampler",
                                            "samplers.cores",
                                            "samplers.pin",
                                            "samplers.wait",
                                            "control.endpoint",
                                            "control.ipc_mode",
                                            "control.max_message_bytes",
                                            "control.curve.secret_key_file",
                                            "control.curve.authorized_keys_file",
                                            "metrics.listen",
                                            "metrics.hosts",
                                            "metrics.explain",
                                            "metrics.tokenizer"};
    CHECK(unreloadable_changes(Config{}, changed_everywhere()) == expected);
    Config only_log;
    only_log.log.level = LogLevel::trace;
    CHECK(unreloadable_changes(Config{}, only_log).empty());
}

TEST_CASE("every field of a configuration has its key") {
    Config copy;
    const Config wanted = changed_everywhere();
    for (const Key& key : keys()) {
        CHECK(key.write(copy) != key.write(wanted));
        key.copy(copy, wanted);
        CHECK(key.write(copy) == key.write(wanted));
    }
    CHECK(copy == wanted);
}

}  // namespace croupier::config
