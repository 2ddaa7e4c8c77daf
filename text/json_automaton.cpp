#include "text/json_automaton.h"

namespace croupier::text {
namespace {

constexpr bool is_one_of(std::string_view bytes, char byte) {
    return bytes.find(byte) != std::string_view::npos;
}
constexpr bool is_whitespace(char byte) {
    return is_one_of(" \t\n\r", byte);
}
constexpr bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}
constexpr bool is_hex_digit(char byte) {
    return is_digit(byte) || is_one_of("abcdefABCDEF", byte);
}

}  // namespace

// For each phase and byte the next phase, or an action: bytes of text come in any order, and a branch for
// each costs several times as much.
struct JsonAutomaton::Table {
    using Row = std::array<std::uint8_t, 256>;
    static constexpr auto kPhases = static_cast<std::size_t>(Phase::count_);

    static constexpr std::uint8_t of(Phase phase) { return static_cast<std::uint8_t>(phase); }
    static constexpr std::uint8_t of(Action action) { return static_cast<std::uint8_t>(action); }
    static constexpr std::uint8_t expect(bool found, Phase next) {
        return of(found ? next : Phase::malformed);
    }

    static constexpr std::uint8_t begin_value(char byte) {
        switch (byte) {
            case '{':
                return of(Action::open_object);
            case '[':
                return of(Action::open_array);
            case '"':
                return of(Phase::string);
            case '-':
                return of(Phase::minus);
            case '0':
                return of(Phase::zero);
            case 't':
                return of(Phase::t);
            case 'f':
                return of(Phase::f);
            case 'n':
                return of(Phase::n);
            default:
                return expect(is_digit(byte), Phase::integer);
        }
    }
    static constexpr std::uint8_t next(char byte) {
        if (byte == ',') return of(Action::comma);
        if (byte == '}') return of(Action::close_object);
        return byte == ']' ? of(Action::close_array) : of(Phase::malformed);
    }
    static constexpr std::uint8_t in_string(char byte, std::uint8_t end, Phase itself, Phase escape) {
        if (byte == '"') return end;
        if (byte == '\\') return of(escape);
        return expect(static_cast<std::uint8_t>(byte) >= 0x20, itself);
    }
    static constexpr std::uint8_t in_escape(char byte, Phase string, Phase hex) {
        return byte == 'u' ? of(hex) : expect(is_one_of("\"\\/bfnrt", byte), string);
    }
    static constexpr std::uint8_t end_scalar(char byte) {
        const bool ends = is_whitespace(byte) || is_one_of(",:[]{}", byte);
        return ends ? of(Action::end_scalar) : of(Phase::malformed);
    }
    static constexpr std::uint8_t in_number(Phase phase, char byte) {
        const bool digit = is_digit(byte);
        const bool exponent = byte == 'e' || byte == 'E';
        switch (phase) {
            case Phase::minus:
                return byte == '0' ? of(Phase::zero) : expect(digit, Phase::integer);
            case Phase::zero:
            case Phase::integer:
                if (digit && phase == Phase::integer) return of(phase);
                if (byte == '.') return of(Phase::point);
                return exponent ? of(Phase::exponent) : end_scalar(byte);
            case Phase::point:
                return expect(digit, Phase::fraction);
            case Phase::fraction:
                if (digit) return of(phase);
                return exponent ? of(Phase::exponent) : end_scalar(byte);
            case Phase::exponent:
                if (byte == '+' || byte == '-') return of(Phase::exponent_sign);
                return expect(digit, Phase::exponent_digits);
            case Phase::exponent_sign:
                return expect(digit, Phase::exponent_digits);
            default:
                return digit ? of(Phase::exponent_digits) : end_scalar(byte);
        }
    }
    static constexpr std::uint8_t in_literal(Phase phase, char byte) {
        switch (phase) {
            case Phase::t:
                return expect(byte == 'r', Phase::tr);
            case Phase::tr:
                return expect(byte == 'u', Phase::tru_or_fals);
            case Phase::f:
                return expect(byte == 'a', Phase::fa);
            case Phase::fa:
                return expect(byte == 'l', Phase::fal);
            case Phase::fal:
                return expect(byte == 's', Phase::tru_or_fals);
            case Phase::tru_or_fals:
                return expect(byte == 'e', Phase::literal);
            case Phase::n:
                return expect(byte == 'u', Phase::nu);
            case Phase::nu:
                return expect(byte == 'l', Phase::nul);
            case Phase::nul:
                return expect(byte == 'l', Phase::literal);
            default:
                return end_scalar(byte);
        }
    }
    // Between values, keys and what joins them.
    static constexpr std::uint8_t between(Phase phase, char byte) {
        if (is_whitespace(byte)) return of(phase);
        switch (phase) {
            case Phase::start:
                return of(Action::begin);
            case Phase::first_element:
                return byte == ']' ? of(Action::close_array) : begin_value(byte);
            case Phase::first_key:
                return byte == '}' ? of(Action::close_object) : expect(byte == '"', Phase::key_string);
            case Phase::key:
                return expect(byte == '"', Phase::key_string);
            case Phase::colon:
                return expect(byte == ':', Phase::value);
            case Phase::next:
                return next(byte);
            default:
                return begin_value(byte);
        }
    }
    static constexpr std::uint8_t outcome(Phase phase, char byte) {
        const auto number = of(phase);
        const auto following = static_cast<Phase>(number + 1U);
        if (phase == Phase::malformed) return number;
        if (phase <= Phase::next) return between(phase, byte);
        if (phase == Phase::string)
            return in_string(byte, of(Action::end_string), phase, Phase::string_escape);
        if (phase == Phase::key_string) return in_string(byte, of(Phase::colon), phase, Phase::key_escape);
        if (phase == Phase::string_escape) return in_escape(byte, Phase::string, Phase::string_hex);
        if (phase == Phase::key_escape) return in_escape(byte, Phase::key_string, Phase::key_hex);
        if (phase == Phase::string_hex_1) return expect(is_hex_digit(byte), Phase::string);
        if (phase == Phase::key_hex_1) return expect(is_hex_digit(byte), Phase::key_string);
        if (phase < Phase::key_hex_1) return expect(is_hex_digit(byte), following);
        return phase <= Phase::literal ? in_literal(phase, byte) : in_number(phase, byte);
    }
    static constexpr std::array<Row, kPhases> make() {
        std::array<Row, kPhases> rows{};
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            for (std::size_t byte = 0; byte < 256; ++byte)
                rows[phase][byte] = outcome(static_cast<Phase>(phase), static_cast<char>(byte));
        }
        return rows;
    }
    static std::uint8_t look_up(Phase phase, char byte) {
        static constexpr std::array<Row, kPhases> kRows = make();
        return kRows[of(phase)][static_cast<std::uint8_t>(byte)];
    }
};

std::optional<JsonAutomaton::Value> JsonAutomaton::find(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        const Step step = take(text[at], seen_ + at);
        if (step == Step::goes_on) continue;
        const std::size_t end = at + (step == Step::completes ? 1 : 0);
        const Value value{at + 1, end, seen_ + end - begin_};
        phase_ = Phase::start;
        // The delimiter is the first byte of what follows.
        if (step == Step::completes_before) (void)take(text[at], seen_ + at);
        seen_ += at + 1;
        return value;
    }
    seen_ += text.size();
    return std::nullopt;
}

inline JsonAutomaton::Step JsonAutomaton::take(char byte, std::uint64_t place) {
    const std::uint8_t outcome = Table::look_up(phase_, byte);
    if (outcome < Table::kPhases) return go(static_cast<Phase>(outcome));
    return act(static_cast<Action>(outcome), byte, place);
}

JsonAutomaton::Step JsonAutomaton::act(Action action, char byte, std::uint64_t place) {
    switch (action) {
        case Action::begin:
            begin_ = place;
            phase_ = Phase::value;
            return take(byte, place);
        case Action::open_object:
            return open(true);
        case Action::open_array:
            return open(false);
        case Action::close_object:
            return close(true);
        case Action::close_array:
            return close(false);
        case Action::comma:
            return go(in_object() ? Phase::key : Phase::value);
        case Action::end_string:
            return end_value();
        case Action::end_scalar:
            if (depth_ == 0) return Step::completes_before;
            phase_ = Phase::next;
            return take(byte, place);
    }
    return go(Phase::malformed);
}

inline JsonAutomaton::Step JsonAutomaton::go(Phase phase) {
    phase_ = phase;
    return Step::goes_on;
}

JsonAutomaton::Step JsonAutomaton::open(bool is_object) {
    if (depth_ == kMostLevels) return go(Phase::malformed);
    std::uint64_t& levels = levels_[depth_ / 64U];
    const std::uint64_t bit = std::uint64_t{1} << depth_ % 64U;
    levels = is_object ? levels | bit : levels & ~bit;
    ++depth_;
    return go(is_object ? Phase::first_key : Phase::first_element);
}

JsonAutomaton::Step JsonAutomaton::close(bool is_object) {
    if (in_object() != is_object) return go(Phase::malformed);
    --depth_;
    return end_value();
}

JsonAutomaton::Step JsonAutomaton::end_value() {
    if (depth_ == 0) return Step::completes;
    return go(Phase::next);
}

}  // namespace croupier::text
