// `croupier hotset show`: what a hotness file says of itself, and what its prefixes cover.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace croupier::tools {

struct ShowOptions {
    std::string file;
    std::optional<std::uint32_t> vocab;  // that it should have
    std::uint32_t tp = 1;
    std::string tokenizer;  // a file; empty: ids alone
    bool json = false;
};

// Writes to standard output. Throws RequestError.
void show_hotness(const ShowOptions& options);

}  // namespace croupier::tools
