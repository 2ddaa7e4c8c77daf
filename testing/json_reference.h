// Where the JSON values of a text end, found in the plainest way: the whole text is parsed from its
// beginning, by one function for each rule of the grammar.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace croupier::testing {

struct JsonValue {
    std::size_t begin;
    std::size_t end;
    std::size_t complete;  // the bytes of the text with which it is known that it ends there
    bool operator==(const JsonValue&) const = default;
};

// One after the other, as far as the text has nothing else; not the last one if that is not complete.
std::vector<JsonValue> json_values(const std::string& text);

}  // namespace croupier::testing
