// Collects the needed parts of a tokenizer.json during parsing, so that a million merges need not be stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace croupier::explain {

struct TokenPiece {
    std::string piece;
    std::uint32_t id;
};

struct TokenizerFile {
    std::vector<TokenPiece> vocabulary;
    std::vector<TokenPiece> added;
    // Pieces are bytes in GPT-2's alphabet.
    bool byte_level = false;
    // Spaces are "▁", and bytes without a piece are "<0xE2>".
    bool spaces_marked = false;
};

// Event handler for nlohmann::json. Throws RequestError, beginning with the place, if the file is not a
// tokenizer.
class TokenizerReader {
  public:
    using number_integer_t = nlohmann::json::number_integer_t;
    using number_unsigned_t = nlohmann::json::number_unsigned_t;
    using number_float_t = nlohmann::json::number_float_t;
    using string_t = nlohmann::json::string_t;
    using binary_t = nlohmann::json::binary_t;

    bool null();
    bool boolean(bool value);
    bool number_integer(number_integer_t value);
    bool number_unsigned(number_unsigned_t value);
    bool number_float(number_float_t value, const string_t& text);
    bool string(string_t& value);
    bool binary(binary_t& value);
    bool start_object(std::size_t size);
    bool key(string_t& name);
    bool end_object();
    bool start_array(std::size_t size);
    bool end_array();
    bool parse_error(std::size_t position, const std::string& token,
                     const nlohmann::json::exception& error) const;

    // Call once, after parsing.
    TokenizerFile finish() &&;

  private:
    struct Level {
        bool is_array;
        std::string key;        // the key whose value is being parsed
        std::size_t index = 0;  // the index of the value being parsed
    };

    std::string path() const;
    bool is_at(std::initializer_list<const char*> keys) const;
    // Whether the value is a token's id in an object.
    bool is_vocabulary_id() const;
    // Called at the beginning of a value; throws if it is not allowed there.
    void begin_value(const char* what);
    void end_value();
    void enter(bool is_array);
    [[noreturn]] void refuse(const std::string& what) const;
    std::uint32_t id_of(std::uint64_t value) const;
    void note_type(const std::string& type);

    std::vector<Level> levels_;
    TokenizerFile file_;
    bool has_vocabulary_ = false;
    // Of the added token or the [token, score] pair being parsed.
    std::string content_;
    bool has_content_ = false;
    std::int64_t id_ = -1;
};

}  // namespace croupier::explain
