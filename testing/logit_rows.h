// Rows and orders for commands that read them from files.
#pragma once

#include <cstdint>
#include <string>

namespace croupier::testing {

// bf16 rows that decrease with the id, with some noise, so that ascending ids are their hotness order.
std::string bf16_rows(std::uint32_t vocab, std::uint32_t rows);
std::string identity_order(std::uint32_t vocab);
// The mean probability mass of the first ids over the rows, by a plain softmax.
double mass_of_first(std::uint32_t vocab, std::uint32_t rows, std::uint32_t first, double temperature);

}  // namespace croupier::testing
