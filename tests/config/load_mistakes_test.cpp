#include <catch2/catch.hpp>

#include "tests/config/problems.h"

namespace croupier::config {
namespace {

struct BadValue {
    const char* value;
    const char* message;
};

// `before` is all of the text up to the value, which stands in its second line.
void expect_refused(const std::string& before, const std::string& key,
                    std::initializer_list<BadValue> values) {
    for (const auto& [value, message] : values) expect_problem(before + value + "\n", 2, key, message);
}

}  // namespace

TEST_CASE("a mistyped key is reported with the key that was meant") {
    expect_problems({
        {"samplers:\n  pin: true\n  cuont: 4\n", 3, "samplers.cuont", "did you mean samplers.count?"},
        {"sampler:\n  count: 4\n", 1, "sampler", "did you mean samplers?"},
        {"control:\n  curve:\n    secret_key: /k\n", 3, "control.curve.secret_key",
         "did you mean control.curve.secret_key_file?"},
    });
}

TEST_CASE("a key in a wrong section is reported with its place") {
    expect_problems({
        {"sessions:\n  count: 4\n", 2, "sessions.count", "did you mean samplers.count?"},
        {"level: info\n", 1, "level", "did you mean log.level?"},
        {"samplers:\n  state_mb: 512\n", 2, "samplers.state_mb",
         "is unknown; write max_state_bytes with a unit, for example 512MiB"},
        {"samplers.count: 4\n", 1, "samplers.count", "indent the key below its section"},
    });
}

TEST_CASE("a key like no other is reported with those that there are") {
    expect_problem("log:\n  zzzzzzzzzz: 4\n", 2, "log.zzzzzzzzzz", "known here: level, format");
}

TEST_CASE("a number out of range is reported with the range") {
    expect_problems({
        {"samplers:\n  count: 257\n", 2, "samplers.count", "257 is out of range; allowed: 0..256"},
        {"samplers:\n  threads_per_sampler: 0\n", 2, "samplers.threads_per_sampler", "allowed: 1..64"},
        {"samplers:\n  count: -1\n", 2, "samplers.count", "-1 is negative; allowed: 0..256"},
        {"samplers:\n  count: 99999999999999999999999\n", 2, "samplers.count", "out of range"},
    });
}

TEST_CASE("what is not a whole number is refused") {
    expect_refused("samplers:\n  spin_us: ", "samplers.spin_us",
                   {
                       {".nan", "not a whole number"},
                       {"NaN", "not a whole number"},
                       {".inf", "not a whole number"},
                       {"-.inf", "not a whole number"},
                       {"1.5", "not a whole number"},
                       {"1e3", "not a whole number"},
                       {"+4", "not a whole number"},
                       {"1_000", "not a whole number"},
                       {"fast", "not a whole number"},
                       {"020", "begins with a zero"},
                       {"20us", "write the number alone: 20"},
                       {"20 us", "write the number alone: 20"},
                       {"\"20\"", "is text because of its quotes; write 20"},
                       {"\"\"", "is text"},
                       {"", "has no value"},
                       {"~", "has no value"},
                       {"[20]", "is a list"},
                       {"{us: 20}", "is a section"},
                   });
}

TEST_CASE("a list or a section in place of a value is refused at the line of the key") {
    expect_problems({
        {"samplers:\n  cores:\n    - 2\n    - 3\n", 2, "samplers.cores", "is a list"},
        {"instance:\n  name: a\n", 1, "instance", "is a section with keys"},
    });
}

TEST_CASE("a value or a list in place of a section is refused") {
    expect_problems({
        {"log: info\n", 1, "log", "is a section"},
        {"log:\n  - level: info\n", 2, "log", "not a list"},
    });
}

TEST_CASE("a size with a wrong unit is reported with the unit that was meant") {
    expect_refused("sessions:\n  max_segment_bytes: ", "sessions.max_segment_bytes",
                   {
                       {"16GB", "did you mean 16GiB?"},
                       {"16G", "did you mean 16GiB?"},
                       {"16gib", "did you mean 16GiB?"},
                       {"16 GiB", "did you mean 16GiB?"},
                       {"16XiB", "the units are KiB, MiB, GiB and TiB"},
                       {"1.5GiB", "the unit \".5GiB\" is unknown"},
                       {"GiB", "is not a size"},
                       {"-1GiB", "is not a size"},
                       {"1KiB", "out of range; allowed: 1MiB..1TiB"},
                       {"2TiB", "out of range; allowed: 1MiB..1TiB"},
                       {"18446744073709551615TiB", "out of range"},
                   });
}

TEST_CASE("a word that is none of the choices is reported with them") {
    expect_problems({
        {"log:\n  level: warning\n", 2, "log.level", "did you mean warn?"},
        {"log:\n  level: 3\n", 2, "log.level", "allowed: trace, debug, info, warn or error"},
        {"samplers:\n  pin: yes\n", 2, "samplers.pin", "allowed: true or false"},
        {"samplers:\n  pin: \"true\"\n", 2, "samplers.pin", "because of its quotes"},
        {"shm:\n  mode: 660\n", 2, "shm.mode", "did you mean 0660?"},
        {"shm:\n  mode: 0777\n", 2, "shm.mode", "allowed: 0600, 0640, 0660 or 0666"},
    });
}

TEST_CASE("a list of cores that is no list of cores is refused") {
    expect_refused("samplers:\n  cores: ", "samplers.cores",
                   {
                       {"5-2", "runs backwards"},
                       {"1,1", "core 1 is listed twice"},
                       {"0-3,2", "core 2 is listed twice"},
                       {"1,,2", "neither a core nor a range"},
                       {"1024", "from 0 to 1023"},
                       {"all", "allowed: auto, or cores"},
                       {"\"\"", "neither a core nor a range"},
                   });
}

TEST_CASE("names, paths and addresses are checked") {
    expect_problems({
        {"instance: Host_7\n", 1, "instance", "allowed: 1 to 32 of a-z, 0-9 and -"},
        {"instance: " + std::string(33, 'a') + "\n", 1, "instance", "33 characters"},
        {"run_dir: run/croupier\n", 1, "run_dir", "not an absolute path"},
        {"run_dir: \"/run/\\0x\"\n", 1, "run_dir", "control character"},
        {"shm:\n  group: a b\n", 2, "shm.group", "cannot be the name of a group"},
        {"control:\n  endpoint: udp://a:1\n", 2, "control.endpoint", "neither ipc:// nor tcp://"},
        {"control:\n  endpoint: ipc://run/x\n", 2, "control.endpoint", "not an absolute path"},
        {"control:\n  endpoint: tcp://host\n", 2, "control.endpoint", "has no port"},
        {"control:\n  endpoint: tcp://host:0\n", 2, "control.endpoint", "from 1 to 65535"},
        {"metrics:\n  listen: 9464\n", 2, "metrics.listen", "write host:port"},
        {"metrics:\n  listen: \"::1:9464\"\n", 2, "metrics.listen", "IPv6 address stands in [ ]"},
        {"metrics:\n  listen: localhost:65536\n", 2, "metrics.listen", "from 0 to 65535"},
    });
}

TEST_CASE("the path of a socket may have 107 bytes and not 108") {
    const std::string longest = "/" + std::string(106, 's');
    CHECK(load_valid("control:\n  endpoint: ipc://" + longest + "\n").control.endpoint == "ipc://" + longest);
    expect_problem("control:\n  endpoint: ipc://" + longest + "s\n", 2, "control.endpoint", "108 bytes");
}

TEST_CASE("a directory is refused whose files' paths would be longer than what holds them") {
    const auto path_of = [](std::size_t length) {
        std::string path;
        while (path.size() < length)
            path += "/" + std::string(std::min<std::size_t>(length - path.size() - 1, 80), 'd');
        return path;
    };
    const std::string longest = path_of(172);
    CHECK(load_valid("shm:\n  dir: " + longest + "\n").shm.dir == longest);
    expect_problem("shm:\n  dir: " + longest + "d\n", 2, "shm.dir", "173 bytes");
    expect_problem("shm:\n  dir: " + longest + "d\n", 2, "shm.dir", "at most 172 bytes");
    expect_problem("run_dir: " + path_of(4090) + "\n", 1, "run_dir", "4090 bytes");
    expect_problem("run_dir: /" + std::string(256, 'd') + "\n", 1, "run_dir", "more than 255 bytes");
    CHECK(load_valid("run_dir: /" + std::string(255, 'd') + "\n").run_dir.size() == 256);
}

TEST_CASE("names of hosts are names alone") {
    CHECK(load_valid("metrics: {hosts: \"\"}").metrics.hosts.empty());
    CHECK(load_valid("metrics: {hosts: \"a.example, B-2\"}").metrics.hosts ==
          std::vector<std::string>{"a.example", "B-2"});
    expect_refused("metrics:\n  hosts: ", "metrics.hosts",
                   {
                       {"\"a,,b\"", "an empty name"},
                       {"\"a,\"", "an empty name"},
                       {"http://a.example", "without scheme, port and path"},
                       {"a.example:9464", "without scheme, port and path"},
                       {"\"a b\"", "is not the name of a host"},
                       {"\"*\"", "is not the name of a host"},
                       {"[a, b]", "is a list"},
                   });
}

TEST_CASE("a key or a section given twice is refused with both lines") {
    expect_problems({
        {"log:\n  level: info\n  level: warn\n", 3, "log.level", "stands in line 2 already"},
        {"log:\n  level: info\nshm:\nlog:\n  format: json\n", 4, "log", "stands in line 1 already"},
        {"log: {level: info, level: info}\n", 1, "log.level", "twice"},
    });
}

TEST_CASE("all mistakes of a file are reported at once, in the order of lines") {
    const LoadResult result = load_text(
        "instance: UPPER\n"
        "samplers:\n"
        "  count: 300\n"
        "  wait:\n"
        "  spinus: 3\n"
        "  count: 3\n"
        "shm: &here\n"
        "log:\n"
        "  level: info\n"
        "   format: xml\n",
        "test.yaml");
    INFO(all_problems(result));
    const std::vector<std::pair<int, int>> places{{1, 11}, {3, 10}, {4, 3}, {5, 3}, {6, 3}, {7, 6}, {10, 10}};
    REQUIRE(result.problems.size() == places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        CHECK(std::pair(result.problems[i].line, result.problems[i].column) == places[i]);
    }
}

TEST_CASE("a file of countless mistakes ends in a bounded report") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "key" + std::to_string(i) + ": 1\n";
    const LoadResult result = load_text(text, "test.yaml");
    CHECK(result.problems.size() == 1001);
    CHECK_THAT(result.problems.back().message, Catch::Matchers::Contains("more mistakes"));
}

}  // namespace croupier::config
