// Rows and orders for the commands that read them from files.
#pragma once

#include <cstdint>
#include <string>

namespace croupier::testing {

// bf16 rows that fall from id to id, with some noise: ascending ids are their hotness order.
std::string bf16_rows(std::uint32_t vocab, std::uint32_t rows);
std::string identity_order(std::uint32_t vocab);
// The mean over the rows of what the first ids weigh, by a plain softmax.
double mass_of_first(std::uint32_t vocab, std::uint32_t rows, std::uint32_t first, double temperature);

}  // namespace croupier::testing
