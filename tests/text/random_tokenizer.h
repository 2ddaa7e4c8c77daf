// Small tokenizers of each kind, with pieces at which characters, bytes, marks and spaces meet.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace croupier::text {

struct TokenizerKind {
    std::string name;
    nlohmann::json decoder;
    std::vector<std::string> parts;  // pieces are up to four of them in a row
    std::vector<std::string> whole;  // pieces as they are
};

std::vector<TokenizerKind> tokenizer_kinds();

// With `size` ids, some of them holes, some of them special.
nlohmann::json random_tokenizer(const TokenizerKind& kind, std::uint32_t size, std::mt19937_64& random);

// Ids of tokens, of holes, and beyond the vocabulary.
std::vector<std::int32_t> random_ids(std::size_t count, std::uint32_t size, std::mt19937_64& random);

}  // namespace croupier::text
