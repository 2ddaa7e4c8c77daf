// A tokenizer's file, read whole.
#pragma once

#include <string>

namespace croupier::text {

// Throws TextError. Never waits, as opening a FIFO would.
std::string read_tokenizer_file(const std::string& path);

}  // namespace croupier::text
