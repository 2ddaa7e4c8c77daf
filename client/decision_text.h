// Texts for the decision errors: why a column has no token.
#pragma once

#include <cstdint>

namespace croupier::client {

const char* decision_error_text(std::uint16_t error);

}  // namespace croupier::client
