#include "testing/json_reference.h"

#include <string_view>

namespace croupier::testing {
namespace {

constexpr int kMostLevels = 128;

// The text ends within a value, or has something else.
struct NoValue {};

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}

    std::size_t at() const { return at_; }
    void skip_whitespace() {
        while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
            ++at_;
    }
    // True: it needs no byte behind it to be complete.
    bool parse_value(int levels = 0) {
        const char first = peek();
        if (first == '{' || first == '[') {
            if (levels == kMostLevels) throw NoValue();
            first == '{' ? parse_object(levels + 1) : parse_array(levels + 1);
            return true;
        }
        if (first == '"') {
            parse_string();
            return true;
        }
        if (first == 't' || first == 'f' || first == 'n') {
            for (const char letter : std::string_view(first == 't'   ? "true"
                                                      : first == 'f' ? "false"
                                                                     : "null"))
                expect(letter);
            return false;
        }
        parse_number();
        return false;
    }
    void expect_delimiter() {
        if (std::string_view(" \t\n\r,:[]{}").find(peek()) == std::string_view::npos) throw NoValue();
    }

  private:
    char peek() const {
        if (at_ == text_.size()) throw NoValue();
        return text_[at_];
    }
    bool is_at(std::string_view allowed) const {
        return at_ < text_.size() && allowed.find(text_[at_]) != std::string_view::npos;
    }
    void expect(char wanted) {
        if (peek() != wanted) throw NoValue();
        ++at_;
    }
    void parse_object(int levels) {
        expect('{');
        skip_whitespace();
        if (peek() == '}') return expect('}');
        while (true) {
            skip_whitespace();
            parse_string();
            skip_whitespace();
            expect(':');
            skip_whitespace();
            parse_value(levels);
            skip_whitespace();
            if (peek() == '}') return expect('}');
            expect(',');
        }
    }
    void parse_array(int levels) {
        expect('[');
        skip_whitespace();
        if (peek() == ']') return expect(']');
        while (true) {
            skip_whitespace();
            parse_value(levels);
            skip_whitespace();
            if (peek() == ']') return expect(']');
            expect(',');
        }
    }
    void parse_string() {
        expect('"');
        while (peek() != '"') {
            const char byte = text_[at_++];
            if (static_cast<unsigned char>(byte) < 0x20) throw NoValue();
            if (byte != '\\') continue;
            const char escaped = peek();
            if (std::string_view("\"\\/bfnrtu").find(escaped) == std::string_view::npos) throw NoValue();
            ++at_;
            if (escaped != 'u') continue;
            for (int digit = 0; digit < 4; ++digit) {
                (void)peek();
                if (!is_at("0123456789abcdefABCDEF")) throw NoValue();
                ++at_;
            }
        }
        expect('"');
    }
    void parse_digits() {
        (void)peek();
        if (!is_at("0123456789")) throw NoValue();
        while (is_at("0123456789")) ++at_;
    }
    void parse_number() {
        if (is_at("-")) ++at_;
        if (is_at("0"))
            ++at_;
        else
            parse_digits();
        if (is_at(".")) {
            ++at_;
            parse_digits();
        }
        if (is_at("eE")) {
            ++at_;
            if (is_at("+-")) ++at_;
            parse_digits();
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<JsonValue> json_values(const std::string& text) {
    std::vector<JsonValue> values;
    Parser parser(text);
    try {
        while (true) {
            parser.skip_whitespace();
            const std::size_t begin = parser.at();
            const bool is_whole = parser.parse_value();
            if (!is_whole) parser.expect_delimiter();
            values.push_back({begin, parser.at(), parser.at() + (is_whole ? 0 : 1)});
        }
    } catch (const NoValue&) {
        return values;
    }
}

}  // namespace croupier::testing
