// Why a column has no token, in words for the engine's log.
#pragma once

#include <cstdint>

namespace croupier::client {

const char* decision_error_text(std::uint16_t error);

}  // namespace croupier::client
