// What a token costs: its bytes alone, its text, and its text searched for stop strings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/token_table.h"

namespace croupier::bench {

struct TextCase {
    std::string name;
    std::vector<std::string> stops;
};

struct TextTime {
    std::string name;
    double ns = 0;     // a token, of the fastest round
    double bytes = 0;  // of text, a token
};

// 16 stop strings as requests have them, and 16 of 256 bytes that begin as the text does.
std::vector<TextCase> text_cases(const text::TokenTable& table, std::span<const std::int32_t> ids);

// The first time is the baseline's: each token's bytes copied from the table. Sequences have `length` tokens.
std::vector<TextTime> time_texts(const text::TokenTable& table, std::span<const std::int32_t> ids,
                                 std::size_t length, std::size_t rounds, const std::vector<TextCase>& cases);

}  // namespace croupier::bench
