// A configuration file as a tree of keys that know their places. Bounded: no aliases, no tags, no deep
// nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/value_type.h"

namespace croupier::config {

struct Place {
    int line = 0;    // 1-based; 0: the file as a whole
    int column = 0;  // 1-based
};

struct SyntaxProblem {
    Place at;
    std::string message;
};

struct Entry;

struct TreeNode {
    enum class Kind { null, scalar, list, map };
    Kind kind = Kind::null;
    Place at;
    Scalar scalar;
    bool many_lines = false;     // a text that goes on in the next line
    std::vector<Entry> entries;  // of a map, in the order of the file, duplicates included
};

struct Entry {
    std::string key;
    Place at;
    TreeNode value;
};

struct Document {
    TreeNode root;  // as far as it could be read: up to the first error of syntax
    std::vector<SyntaxProblem> problems;
};

Document parse_document(std::string_view text);

}  // namespace croupier::config
