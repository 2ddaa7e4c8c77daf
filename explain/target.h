// The instruction set that the sampler's vector code is compiled for and runs with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace croupier::explain {

// Highway's bit of the name, which may be in any case. Throws RequestError with what this machine has.
std::int64_t target_of(const std::string& name);

// Holds for the whole process until the next call; nothing: the best that the machine has.
void use_target(std::optional<std::int64_t> target);

}  // namespace croupier::explain
