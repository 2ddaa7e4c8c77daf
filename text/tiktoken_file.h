// A tiktoken file: a line for each token, with its bytes in base64 and its id. Special tokens are not in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_json.h"

namespace croupier::text {

// Pieces are bytes. Throws TextError, beginning with the line.
std::vector<Piece> read_tiktoken(std::string_view file);

}  // namespace croupier::text
