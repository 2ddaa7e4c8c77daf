// The slips that a YAML parser reports in the wrong place, or not at all: found line by line before it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace croupier::config {

struct SyntaxProblem {
    int line = 0;    // 1-based
    int column = 0;  // 1-based; 0: the whole line
    std::string message;
};

struct LintResult {
    std::vector<SyntaxProblem> problems;
    // The text with each slip repaired or blanked, line for line, so that the rest can still be checked.
    std::string repaired;
    bool readable = true;  // false: not text at all, nothing to parse
};

LintResult lint_lines(std::string_view text);

}  // namespace croupier::config
