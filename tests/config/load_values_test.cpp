#include <catch2/catch.hpp>

#include "tests/config/problems.h"

namespace croupier::config {

TEST_CASE("an empty file, a comment alone and an empty section are the defaults") {
    CHECK(load_valid("") == Config{});
    CHECK(load_valid("\n\n# nothing\n") == Config{});
    CHECK(load_valid("---\n") == Config{});
    CHECK(load_valid("samplers:\n  # count: 4\nlog:\n") == Config{});
}

TEST_CASE("every kind of value is read") {
    const Config config = load_valid(
        "instance: host-7\n"
        "shm:\n"
        "  mode: \"0640\"\n"
        "  group: engines\n"
        "  hugepages: try\n"
        "samplers:\n"
        "  count: 12\n"
        "  cores: 8,2-5\n"
        "  pin: false\n"
        "  wait: spin\n"
        "sessions:\n"
        "  max_segment_bytes: 3MiB\n"
        "  max_total_bytes: 1TiB\n"
        "control:\n"
        "  ipc_mode: 0600\n"
        "  max_message_bytes: 4096\n"
        "metrics: {listen: off}\n"
        "log: {level: warn, format: json}\n");
    CHECK(config.instance == "host-7");
    CHECK(config.shm.mode == 0640);
    CHECK(config.shm.group == "engines");
    CHECK(config.shm.hugepages == HugePages::attempt);
    CHECK(config.samplers.count == 12);
    CHECK(config.samplers.cores == std::vector<std::uint32_t>{2, 3, 4, 5, 8});
    CHECK_FALSE(config.samplers.pin);
    CHECK(config.samplers.wait == Wait::spin);
    CHECK(config.sessions.max_segment_bytes == 3 * mib);
    CHECK(config.sessions.max_total_bytes == tib);
    CHECK(config.control.ipc_mode == 0600);
    CHECK(config.control.max_message_bytes == 4 * kib);
    CHECK(config.metrics.listen == "off");
    CHECK(config.log.level == LogLevel::warn);
    CHECK(config.log.format == LogFormat::json);
    CHECK(config.hot_set == HotSet{});
}

TEST_CASE("both ends of a range are inside it") {
    CHECK(load_valid("samplers: {count: 0}").samplers.count == 0);
    CHECK(load_valid("samplers: {count: 256}").samplers.count == 256);
    CHECK(load_valid("sessions: {max_segment_bytes: 1MiB}").sessions.max_segment_bytes == mib);
    CHECK(load_valid("control: {max_message_bytes: 256MiB}").control.max_message_bytes == 256 * mib);
    CHECK(load_valid("metrics: {listen: \"0.0.0.0:0\"}").metrics.listen == "0.0.0.0:0");
    CHECK(load_valid("metrics: {listen: \"[::1]:65535\"}").metrics.listen == "[::1]:65535");
}

TEST_CASE("an address with colons and brackets may stand without quotes") {
    const Config config = load_valid(
        "control:\n"
        "  endpoint: tcp://[::1]:5555  # this host\n"
        "  curve:\n"
        "    secret_key_file: /etc/croupier/key\n"
        "    authorized_keys_file: /etc/croupier/clients\n"
        "metrics:\n"
        "  listen: localhost:9464\n");
    CHECK(config.control.endpoint == "tcp://[::1]:5555");
    CHECK(config.metrics.listen == "localhost:9464");
}

TEST_CASE("Windows line ends and a byte order mark change nothing") {
    CHECK(load_valid("samplers:\r\n  count: 4\r\n").samplers.count == 4);
    CHECK(load_valid("\xef\xbb\xbfsamplers:\n  count: 4\n").samplers.count == 4);
}

}  // namespace croupier::config
