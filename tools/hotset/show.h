// `croupier hotset show`: shows a hotness file and the shares that its prefixes cover.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace croupier::tools {

struct ShowOptions {
    std::string file;
    std::optional<std::uint32_t> vocab;  // the expected vocabulary size
    std::uint32_t tp = 1;
    std::string tokenizer;  // a tokenizer.json; empty: show ids only
    bool json = false;
};

// Writes to standard output. Throws RequestError.
void show_hotness(const ShowOptions& options);

}  // namespace croupier::tools
