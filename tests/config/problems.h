// What the tests of the loader ask of its answer.
#pragma once

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "config/load.h"

namespace croupier::config {

inline std::string all_problems(const LoadResult& result) {
    std::string text;
    for (const Problem& problem : result.problems) text += to_string(problem) + "\n";
    return text;
}

inline Config load_valid(std::string_view text) {
    const LoadResult result = load_text(text, "test.yaml", Config{});
    INFO(all_problems(result));
    REQUIRE(result.config.has_value());
    REQUIRE(result.problems.empty());
    return *result.config;
}

inline Problem only_problem(std::string_view text) {
    const LoadResult result = load_text(text, "test.yaml", Config{});
    INFO(text.substr(0, 500));
    INFO(all_problems(result));
    REQUIRE_FALSE(result.config.has_value());
    REQUIRE(result.problems.size() == 1);
    CHECK(result.problems[0].file == "test.yaml");
    return result.problems[0];
}

inline void expect_problem(std::string_view text, int line, const std::string& key,
                           const std::string& message) {
    const Problem problem = only_problem(text);
    CHECK(problem.line == line);
    CHECK(problem.key == key);
    CHECK_THAT(problem.message, Catch::Matchers::Contains(message));
}

struct Mistake {
    std::string_view text;
    int line;
    const char* key;
    const char* message;
};

inline void expect_problems(std::initializer_list<Mistake> mistakes) {
    for (const auto& [text, line, key, message] : mistakes) expect_problem(text, line, key, message);
}

// For mistakes that bring others with them.
inline void expect_among_problems(std::string_view text, int line, const std::string& message) {
    const LoadResult result = load_text(text, "test.yaml", Config{});
    INFO(all_problems(result));
    CHECK_FALSE(result.config.has_value());
    bool found = false;
    for (const Problem& problem : result.problems) {
        found = found || (problem.line == line && problem.message.find(message) != std::string::npos);
    }
    CHECK(found);
}

}  // namespace croupier::config
