// Selects the instruction set of the sampler's vector code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace croupier::explain {

// Highway's bit for the name (case-insensitive). Throws RequestError with the names that this machine
// supports.
std::int64_t target_of(const std::string& name);

// Applies to the whole process until the next call; nothing selects the best one.
void use_target(std::optional<std::int64_t> target);

}  // namespace croupier::explain
