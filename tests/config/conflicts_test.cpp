#include <catch2/catch.hpp>

#include "tests/config/problems.h"

namespace croupier::config {

TEST_CASE("a segment may be as large as all segments together, and no larger") {
    load_valid("sessions:\n  max_segment_bytes: 1GiB\n  max_total_bytes: 1GiB\n");
    expect_problems({
        {"sessions:\n  max_total_bytes: 1GiB\n  max_segment_bytes: 2GiB\n", 3, "sessions.max_segment_bytes",
         "2GiB is more than sessions.max_total_bytes, which is 1GiB"},
        {"sessions:\n  max: 2\n  max_total_bytes: 1GiB\n", 3, "sessions.max_segment_bytes",
         "16GiB is more than sessions.max_total_bytes"},
    });
}

TEST_CASE("the least hot set is no larger than the most") {
    load_valid("hot_set:\n  least: 4096\n  most: 4096\n");
    expect_problems({
        {"hot_set:\n  least: 8192\n  most: 4096\n", 2, "hot_set.least",
         "8192 is more than hot_set.most, which is 4096"},
        {"hot_set:\n  size: 1000\n", 2, "hot_set.size", "1000"},
    });
}

TEST_CASE("who explains decisions is asked somewhere") {
    load_valid("metrics:\n  explain: true\n");
    load_valid("metrics:\n  listen: off\n");
    expect_problems({
        {"metrics:\n  explain: true\n  listen: off\n", 2, "metrics.explain", "metrics.listen is off"},
    });
}

TEST_CASE("an endpoint on TCP needs both keys of CURVE") {
    const std::string control = "control:\n  endpoint: tcp://127.0.0.1:5555\n";
    const std::string secret = "  curve:\n    secret_key_file: /k\n";
    expect_problems({
        {control, 2, "control.endpoint", "control.curve.secret_key_file"},
        {control + secret, 2, "control.endpoint", "control.curve.authorized_keys_file"},
    });
    load_valid(control + secret + "    authorized_keys_file: /a\n");
}

TEST_CASE("one key of CURVE without the other is refused") {
    expect_problems({
        {"control:\n  curve:\n    secret_key_file: /k\n", 3, "control.curve.secret_key_file",
         "is set without control.curve.authorized_keys_file"},
        {"control:\n  curve:\n    authorized_keys_file: /k\n", 3, "control.curve.authorized_keys_file",
         "is set without control.curve.secret_key_file"},
    });
    load_valid("control:\n  curve:\n    secret_key_file: /k\n    authorized_keys_file: /a\n");
}

TEST_CASE("a value that could not be read takes part in no conflict") {
    expect_problem("sessions:\n  max_segment_bytes: 32GB\n  max_total_bytes: 1GiB\n", 2,
                   "sessions.max_segment_bytes", "did you mean 32GiB?");
}

}  // namespace croupier::config
