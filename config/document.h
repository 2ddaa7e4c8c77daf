// A configuration file as a tree of keys that know their lines. Bounded: no aliases, no tags, no deep
// nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/line_lint.h"
#include "config/value_type.h"

namespace croupier::config {

struct Entry;

struct TreeNode {
    enum class Kind { null, scalar, list, map };
    Kind kind = Kind::null;
    int line = 0;
    Scalar scalar;
    std::vector<Entry> entries;  // of a map, in the order of the file, duplicates included
};

struct Entry {
    std::string key;
    int line = 0;
    TreeNode value;
};

struct Document {
    TreeNode root;  // as far as it could be read
    std::vector<SyntaxProblem> problems;
};

Document parse_document(std::string_view text);

}  // namespace croupier::config
