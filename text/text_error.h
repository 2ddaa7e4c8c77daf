#pragma once

#include <stdexcept>

namespace croupier::text {

// What is wrong with a tokenizer's file or with stop strings, beginning with the place.
class TextError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace croupier::text
