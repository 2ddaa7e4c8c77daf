// The text of a sequence and the stop string or JSON value that ends it, found in the plainest way:
// everything is decoded anew for each token and searched as a whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "croupier/client.hpp"

namespace croupier::testing {

// Tokens that are bytes, all of them different; an id with an empty one has no token.
using Pieces = std::vector<std::string>;

// About `ids` tokens of letters and of characters of several bytes, whole and in parts: texts of them have
// short strings often. Not every id has a token, and not every token is UTF-8.
Pieces small_alphabet_pieces(std::uint32_t ids);
std::string small_alphabet_piece(std::uint32_t id);
std::string tiktoken_file(const Pieces& pieces);

// A file of the process that made it, for croupier_open_options.tokenizer.
class TokenizerFile {
  public:
    explicit TokenizerFile(const std::string& contents);
    ~TokenizerFile();
    TokenizerFile(const TokenizerFile&) = delete;
    TokenizerFile& operator=(const TokenizerFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    pid_t owner_;
};

struct ReferenceRules {
    std::vector<std::string> stops;
    std::uint32_t min_tokens = 0;
    bool include_stop = false;
    bool stop_at_json = false;
};

ReferenceRules rules_of(const client::Sequence& sequence);

// What else may end a sequence with its last token.
enum class OtherEnd { none, by_id, otherwise };
OtherEnd other_end(unsigned flags);

struct ReferenceText {
    std::string released;
    std::optional<client::TextStop> stop;
};

// The beginning of a character with which a prompt ends.
std::string unfinished_of(const Pieces& pieces, std::span<const std::int32_t> prompt);
// After the last token of this output, which follows a prompt that ends so.
ReferenceText reference_text(const Pieces& pieces, const ReferenceRules& rules, const std::string& unfinished,
                             std::span<const std::int32_t> output, OtherEnd end);

}  // namespace croupier::testing
