// Keyword arguments whose names come from a table.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "python/extension/failure.h"

namespace croupier::python {

// Throws that `of` has no `name`, and which of `known` comes near.
[[noreturn]] void throw_unknown(const std::string& of, const std::string& name,
                                const std::vector<std::string>& known);

// nanobind keeps the pointer: the text stays for good.
const char* kept(std::string text);

}  // namespace croupier::python
