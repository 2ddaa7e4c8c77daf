// The event handler of nlohmann::json behind read_tokenizer_json().
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_json.h"

namespace croupier::text {

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
    // Whether the value being parsed is here: "" is any index, "*" any key.
    bool is_at(std::initializer_list<std::string_view> keys) const;
    bool is_id() const;
    // Called at the beginning of a value; throws if it is not allowed there.
    void begin_value(std::string_view kind);
    void end_value();
    void enter(bool is_array);
    [[noreturn]] void refuse(const std::string& what) const;
    std::uint32_t id_of(std::uint64_t value) const;
    void check_count(std::size_t count) const;
    void add_piece(std::string piece, std::uint64_t id);

    // The decoder whose member is being parsed; null elsewhere.
    DecoderStep* step();
    bool is_step() const;
    void check_step_member(std::string_view kind);
    void read_step_text(std::string& value);
    void begin_step();
    void end_step();

    std::vector<Level> levels_;
    TokenizerFile file_;
    bool has_vocabulary_ = false;
    // Of the [token, score] pair being parsed.
    std::string piece_;
    bool has_piece_ = false;
    // Of the added token being parsed.
    AddedToken added_;
    bool has_content_ = false;
    bool has_id_ = false;
    struct OpenStep {
        std::size_t index;   // in file_.decoder
        std::size_t levels;  // of its members
    };
    std::vector<OpenStep> open_steps_;
};

}  // namespace croupier::text
