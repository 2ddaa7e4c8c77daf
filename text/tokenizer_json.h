// Collects the needed parts of a tokenizer.json while it is parsed, so that a million merges need not be
// stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/decoder_chain.h"

namespace croupier::text {

struct Piece {
    std::string piece;  // as the file writes it
    std::uint32_t id = 0;
};

// A token that the file has beside the model's, such as "<|im_end|>".
struct AddedToken {
    std::string content;
    std::uint32_t id = 0;
    bool is_special = false;  // left out of a text that skips special tokens
};

struct TokenizerFile {
    std::vector<Piece> vocabulary;
    bool has_list = false;  // ids are places in a list, in which a piece may stand twice
    std::vector<AddedToken> added;
    std::optional<std::vector<DecoderStep>> decoder;  // with the members of a Sequence in its place
};

// Throws TextError, beginning with the place, if the file is not a tokenizer. What is left out of a text's
// meaning (normalizers, merges, post-processors) is not read.
TokenizerFile read_tokenizer_json(std::string_view file);

}  // namespace croupier::text
