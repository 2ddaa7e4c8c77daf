// Random texts that are JSON values, nearly are, or have something behind them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "testing/text_reference.h"

namespace croupier::testing {

// Half of them are one to three values with whitespace around them and no more. Of the others some bytes are
// missing, added or changed, so that they may not be UTF-8.
std::string random_json(std::mt19937_64& random);
// Tokens of which random texts are JSON values now and then, and long ones too.
Pieces json_pieces(std::uint32_t ids);
// Parts of at most `most` bytes.
std::vector<std::string> cut_randomly(const std::string& text, std::size_t most, std::mt19937_64& random);

}  // namespace croupier::testing
