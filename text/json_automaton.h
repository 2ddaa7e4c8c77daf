// Finds where JSON values end in text that comes in parts: an automaton with a stack of bits.
//
// The rule. A value (RFC 8259) may follow whitespace and nothing else. An object, an array or a string is
// complete with its last byte. A number, true, false or null is complete with the byte behind it, which is
// whitespace or one of ,:[]{} and no part of it. After a value the next may follow. Text that breaks the
// grammar, or nests deeper than 128 levels, has no more values, whatever follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace croupier::text {

class JsonAutomaton {
  public:
    static constexpr std::uint8_t kMostLevels = 128;

    struct Value {
        std::size_t complete;  // the bytes of the text up to the one that completes it, and that one
        std::size_t end;       // the bytes of the text up to its end
        std::uint64_t bytes;   // its own, of which earlier parts may have some
    };
    // Goes on with `text` up to the byte that completes a value. Without one, goes on to the end of the text.
    std::optional<Value> find(std::string_view text);

  private:
    enum class Phase : std::uint8_t {
        malformed,
        start,          // no value has begun
        value,          // one follows within another
        first_element,  // or the end of an array
        first_key,      // a key follows, or the end of an object
        key,
        colon,
        next,  // a comma follows, or the end of the innermost array or object
        string,
        string_escape,
        string_hex,  // four digits follow
        string_hex_3,
        string_hex_2,
        string_hex_1,
        key_string,
        key_escape,
        key_hex,
        key_hex_3,
        key_hex_2,
        key_hex_1,
        t,
        tr,
        f,
        fa,
        fal,
        n,
        nu,
        tru_or_fals,
        nul,
        literal,
        minus,
        zero,
        integer,
        point,
        fraction,
        exponent,
        exponent_sign,
        exponent_digits,
        count_
    };
    // What a byte does that changes more than the phase.
    enum class Action : std::uint8_t {
        begin = static_cast<std::uint8_t>(Phase::count_),
        open_object,
        open_array,
        close_object,
        close_array,
        comma,
        end_string,
        end_scalar  // before this byte
    };
    enum class Step : std::uint8_t { goes_on, completes, completes_before };
    struct Table;

    Step take(char byte, std::uint64_t place);
    Step act(Action action, char byte, std::uint64_t place);
    Step go(Phase phase);
    Step open(bool is_object);
    Step close(bool is_object);
    Step end_value();
    bool in_object() const { return (levels_[(depth_ - 1U) / 64] >> (depth_ - 1U) % 64 & 1U) != 0; }

    std::array<std::uint64_t, kMostLevels / 64> levels_{};  // 1: an object
    std::uint64_t seen_ = 0;                                // bytes
    std::uint64_t begin_ = 0;                               // of the present value
    Phase phase_ = Phase::start;
    std::uint8_t depth_ = 0;
};

}  // namespace croupier::text
