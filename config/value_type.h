// A type of value: how it is read from a YAML scalar, what it allows, how it is written back.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace croupier::config {

struct Scalar {
    std::string text;
    bool quoted = false;
};

// What is wrong with a value, as the rest of a sentence; nothing when it is right.
using Wrong = std::optional<std::string>;

template <class T>
struct ValueType {
    std::string name;
    std::string allowed;
    std::function<Wrong(const Scalar&, T&)> parse;  // leaves the value alone when something is wrong
    std::function<std::string(const T&)> print;     // as YAML; parse reads it back
};

}  // namespace croupier::config
