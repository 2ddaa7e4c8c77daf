#include "testing/random_json.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace croupier::testing {
namespace {

constexpr std::string_view kBytes = "{}[],:\"\\ 01-+.eEtunx/\n\x01";

class Writer {
  public:
    explicit Writer(std::mt19937_64& random) : random_(random) {}

    std::string text;

    bool one_in(std::uint32_t odds) { return random_() % odds == 0; }
    void add_whitespace() {
        while (one_in(3)) text += " \t\n\r"[random_() % 4];
    }
    void add_value(int levels) {
        const std::uint64_t kind = random_() % (levels < 4 ? 8 : 5);
        if (kind < 2) add_string();
        if (kind == 2 || kind == 3) add_number();
        if (kind == 4) text += std::array{"true", "false", "null"}[random_() % 3];
        if (kind > 4) add_container(kind == 5, levels + 1);
    }

  private:
    void add_string() {
        // No \u escape is a surrogate, whatever bytes are changed.
        static const std::array kParts = {"a",   "b",    "xyz",  "\u20AC", "\U0001F600", "{",       "]",
                                          ",",   ":",    "\\\"", "\\\\",   "\\/",        "\\u00e9", "\\uAB1f",
                                          "\\n", "true", "1",    "/",      "\x7f"};
        text += '"';
        while (!one_in(3)) text += kParts[random_() % kParts.size()];
        text += '"';
    }
    void add_digits() {
        do text += "0123456789"[random_() % 10];
        while (one_in(2) && text.size() < 200);
    }
    void add_number() {
        if (one_in(3)) text += '-';
        if (one_in(3)) {
            text += '0';
        } else {
            text += "123456789"[random_() % 9];
            if (one_in(2)) add_digits();
        }
        if (one_in(3)) {
            text += '.';
            add_digits();
        }
        if (!one_in(3)) return;
        text += one_in(2) ? "e" : "E";
        if (one_in(2)) text += "+-"[random_() % 2];
        text += "0123456789"[random_() % 10];
    }
    void add_container(bool is_object, int levels) {
        text += is_object ? '{' : '[';
        add_whitespace();
        for (std::uint64_t count = random_() % 4; count > 0; --count) {
            if (is_object) {
                add_string();
                add_whitespace();
                text += ':';
                add_whitespace();
            }
            add_value(levels);
            add_whitespace();
            if (count > 1) text += ',';
            add_whitespace();
        }
        text += is_object ? '}' : ']';
    }

    std::mt19937_64& random_;
};

}  // namespace

std::string random_json(std::mt19937_64& random) {
    Writer writer(random);
    writer.add_whitespace();
    for (std::uint64_t count = 1 + random() % 3; count > 0; --count) {
        writer.add_value(0);
        writer.add_whitespace();
    }
    std::string text = std::move(writer.text);
    if (random() % 2 == 0) return text;
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        const std::size_t at = random() % (text.size() + 1);
        const char byte = kBytes[random() % kBytes.size()];
        if (random() % 2 == 0 || at == text.size())
            text.insert(at, 1, byte);
        else if (random() % 2 == 0)
            text.erase(at, 1);
        else
            text[at] = byte;
    }
    return text;
}

Pieces json_pieces(std::uint32_t ids) {
    static const std::vector<std::string> kParts = {
        "\"",       "a",    "[]",     "{}",  " ",   "1",    "12 ",     "\"a\"", "bc ",      "{\"",   "\":",
        "[",        "]",    "}",      ",",   "\n",  "0",    "-",       ".5",    "e3",       "true",  "false ",
        "null",     "\\",   "u00",    "e9",  "\\n", "\\\"", "[1,",     "2]",    "\"}",      "\":\"", "\",\"",
        "\xE2\x82", "\xAC", "\u20AC", "[\"", "\"]", "\"x",  "{\"a\":", "1}",    "\xF0\x9F", "b"};
    Pieces pieces(ids);
    std::set<std::string> known;
    for (std::uint32_t id = 0; id < ids; ++id) {
        std::string piece;
        for (std::size_t left = id + 1; left > 0; left = (left - 1) / kParts.size())
            piece += kParts[(left - 1) % kParts.size()];
        if (known.insert(piece).second) pieces[id] = piece;
    }
    return pieces;
}

std::vector<std::string> cut_randomly(const std::string& text, std::size_t most, std::mt19937_64& random) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
        pieces.push_back(text.substr(at, 1 + random() % most));
        at += pieces.back().size();
    }
    return pieces;
}

}  // namespace croupier::testing
