#include <catch2/catch.hpp>

#include "tests/config/problems.h"

namespace croupier::config {

TEST_CASE("an indentation with a tab is reported at its line") {
    expect_problems({
        {"samplers:\n  pin: true\n\tcount: 4\n", 3, "", "indented with a tab"},
        {"samplers:\n\tcount: 4\n", 2, "", "indented with a tab"},
        {"samplers:\n  \tcount: 4\n", 2, "", "indented with a tab"},
    });
}

TEST_CASE("a missing colon is reported at its line with what to write") {
    expect_problems({
        {"samplers:\n  pin: true\n  count 4\n  wait: spin\n", 3, "", "write \"count: 4\""},
        {"samplers:\n  pin: true\n  count 4  # four\n\n  # why\n  wait: spin\n", 3, "", "write \"count: 4\""},
        {"samplers:\n  count 4\n", 2, "samplers", "write \"count: 4\""},
        {"samplers:\n  count:4\n", 2, "samplers", "write \"count: 4\""},
        {"samplers:\n  count = 4\n", 2, "samplers", "write \"count: 4\""},
        {"samplers\n  count: 4\n", 1, "", "write \"samplers:\""},
        {"run_dir: /run\ninstance a\n", 2, "instance a", "write \"instance: a\""},
    });
}

TEST_CASE("the keys before an error of syntax are checked all the same, and those after it are not") {
    const LoadResult result =
        load_text("samplers:\n  count: 400\n  pin true\n  wait: spin\n  spin_us: x\n", "test.yaml");
    INFO(all_problems(result));
    REQUIRE(result.problems.size() == 2);
    CHECK(result.problems[0].key == "samplers.count");
    CHECK(result.problems[0].line == 2);
    CHECK(result.problems[1].line == 3);
    CHECK(result.problems[1].column == 3);
}

TEST_CASE("a value that goes on in the next line is refused with its key") {
    expect_problems({
        {"run_dir: /run\n  /croupier\n", 1, "run_dir", "goes on in the next line"},
        {"run_dir:\n  /run\n  /croupier\n", 2, "run_dir", "goes on in the next line"},
        {"run_dir: |\n  /run\n", 1, "run_dir", "goes on in the next line"},
        {"run_dir: \"/run\n  /croupier\"\n", 1, "", "not closed on this line"},
    });
    load_valid("run_dir:\n  /run/cr\xc3\xbcpier \t # with a comment\n");
    load_valid("# M\xfcnchen\nlog: {level: info, format: text}\nrun_dir: '/run/it''s'\n");
}

TEST_CASE("a quote that is not closed is reported where it is opened") {
    expect_problems({
        {"control:\n  endpoint: \"ipc:///a\n  ipc_mode: 0660\n", 2, "", "not closed on this line"},
        {"shm:\n  group: 'it''s\n", 2, "", "not closed on this line"},
    });
    CHECK(only_problem("shm:\n  group: 'x\n").column == 10);
    CHECK(only_problem("\xef\xbb\xbfinstance: 'x\n").column == 11);
    expect_problem("log:\n  level: \"info\n  format: \"json\"\n", 2, "", "not closed on this line");
}

TEST_CASE("text after a closing quote is reported at its line") {
    expect_problem("shm:\n  group: \"a\" b\n  mode: 0660\n", 2, "", "follows a closing quote");
}

TEST_CASE("a bracket that is not closed is reported where it is opened") {
    expect_problem("log: {level: info\nshm:\n  group: a\n", 1, "", "never closed");
    expect_among_problems("samplers:\n  pin: true\nlog: [a,\n", 3, "never closed");
}

TEST_CASE("a wrong indentation is reported at its line") {
    expect_problems({
        {"log:\n    level: info\n  format: json\n", 3, "", "indented unlike the keys beside it"},
        {"log:\n  level: info\n   format: json\n", 3, "", "indent the line like the keys beside it"},
        {" instance: a\nrun_dir: /run\n", 2, "", "outermost keys all begin in the first column"},
    });
}

TEST_CASE("a value that YAML gives a meaning of its own is reported at its line") {
    expect_problems({
        {"shm:\n  group: @wheel\n", 2, "", "put it in quotes"},
        {"shm:\n  group: *wheel\n", 2, "", "aliases"},
        {"shm:\n  group: !wheel\n", 2, "", "tags"},
        {"shm:\n  group: !!str a\n", 2, "", "tags"},
        {"shm:\n  group: &a wheel\n", 2, "", "anchors"},
        {"shm:\n  group: a: b\n", 2, "", "quote a value that contains"},
        {"shm:\n  group: \"\\q\"\n", 2, "", "escape"},
    });
}

TEST_CASE("a file that holds no keys is refused") {
    expect_problems({
        {"- a\n- b\n", 1, "", "has to hold keys with values"},
        {"[a, b]\n", 1, "", "has to hold keys with values"},
        {": 4\n", 1, "", "without a key before it"},
        {"{[a]: 4}\n", 1, "", "without a key before it"},
    });
}

TEST_CASE("a second document is refused") {
    expect_problem("instance: a\n---\ninstance: b\n", 2, "", "second document");
}

TEST_CASE("bytes that are not text are refused at their line") {
    expect_problems({
        {std::string_view("log:\n  level: in\0fo\n", 20), 2, "", "the byte 0 is a control character"},
        {"instance: a\n\x04\nrubbish\n", 2, "", "the byte 4 is a control character"},
        {"instance: a\rlog:\n", 1, "", "the byte 13 is a control character"},
    });
}

TEST_CASE("deep nesting is refused before it can exhaust the stack") {
    std::string blocks;
    for (std::size_t depth = 0; depth < 700; ++depth) blocks += std::string(depth, ' ') + "a:\n";
    expect_among_problems(blocks, 33, "nests deeper than 32 levels");
    std::string items;
    for (int depth = 0; depth < 100000; ++depth) items += "- ";
    expect_among_problems(items + "a\n", 1, "nests deeper than 32 levels");
    expect_among_problems(std::string(500000, '['), 1, "nests deeper than 32 levels");
    expect_among_problems(std::string(100, '{') + std::string(100, '}'), 1, "nests deeper than 32 levels");
}

TEST_CASE("aliases do not multiply what an anchor names") {
    const LoadResult result = load_text(
        "a: &a [x, x]\n"
        "b: &b [*a, *a]\n"
        "c: &c [*b, *b]\n",
        "test.yaml");
    REQUIRE_FALSE(result.config.has_value());
    CHECK_THAT(all_problems(result), Catch::Matchers::Contains("aliases (*name) are not accepted"));
}

TEST_CASE("a text of more than a mebibyte is refused") {
    CHECK(load_text(std::string(mib, '\n'), "test.yaml").config.has_value());
    expect_problem(std::string(mib + 1, '\n'), 0, "", "larger than 1048576 bytes");
}

}  // namespace croupier::config
