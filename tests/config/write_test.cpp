#include "config/write.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "config/schema.h"
#include "tests/config/problems.h"

namespace croupier::config {

namespace {

std::string committed(const std::string& path) {
    std::ifstream in(std::string(CROUPIER_SOURCE_DIR) + "/" + path, std::ios::binary);
    REQUIRE(in.good());
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("the example in the repository is the schema's, and config_reference rewrites it") {
    CHECK(committed("config/croupierd.yaml") == example_yaml());
}

TEST_CASE("the reference in the repository is the schema's, and config_reference rewrites it") {
    CHECK(committed("docs/configuration.md") == reference_markdown());
}

TEST_CASE("the example loads and is the default configuration") {
    const LoadResult result = load_file(std::string(CROUPIER_SOURCE_DIR) + "/config/croupierd.yaml");
    INFO(all_problems(result));
    REQUIRE(result.config.has_value());
    CHECK(*result.config == Config{});
}

TEST_CASE("the reference names every key and section") {
    const std::string reference = reference_markdown();
    for (const Key& key : keys()) CHECK_THAT(reference, Catch::Matchers::Contains("| `" + key.path + "` |"));
    for (const Section& section : sections()) {
        CHECK_THAT(reference, Catch::Matchers::Contains("## `" + section.path + "`"));
    }
}

TEST_CASE("a written configuration is read back as it was") {
    CHECK(load_valid(to_yaml(Config{})) == Config{});

    Config config;
    config.instance = "host-7";
    config.run_dir = "/run/with \"quotes\", \\ and # signs: ünïcode";
    config.shm.hugepages = HugePages::attempt;
    config.samplers.cores = {0, 2, 3, 4, 9};
    config.samplers.pin = false;
    config.sessions.max_segment_bytes = mib + 1;
    config.sessions.max_total_bytes = tib;
    config.control.endpoint = "tcp://*:5555";
    config.control.curve = {.secret_key_file = "/s", .authorized_keys_file = "/a"};
    config.metrics.listen = "off";
    config.log.format = LogFormat::json;
    CHECK(load_valid(to_yaml(config)) == config);
}

}  // namespace croupier::config
