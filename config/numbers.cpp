#include "config/numbers.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include "config/config.h"
#include "config/nearest.h"
#include "config/texts.h"

namespace croupier::config {

namespace {

struct Unit {
    std::string_view name;
    std::uint64_t bytes;
};
constexpr std::array<Unit, 4> units{{{"TiB", tib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}}};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::size_t leading_digits(std::string_view text) {
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

// The caller has seen that there are only digits; what does not fit becomes the largest number, which is
// outside every range.
std::uint64_t to_number(std::string_view digits) {
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return end.ec == std::errc() ? value : std::numeric_limits<std::uint64_t>::max();
}

Wrong not_a_whole_number(const Scalar& scalar) {
    const std::string& text = scalar.text;
    const std::size_t digits = leading_digits(text);
    if (scalar.quoted && !text.empty() && digits == text.size()) {
        return quoted(text) + " is text because of its quotes; write " + text;
    }
    if (scalar.quoted || text.empty()) return quoted(text) + " is text, not a whole number";
    const bool negative =
        text[0] == '-' && text.size() > 1 && leading_digits(text.substr(1)) == text.size() - 1;
    if (negative) return text + " is negative";
    if (digits == text.size() && digits > 1 && text[0] == '0') {
        return text + " begins with a zero, which some readers take for octal; write it without";
    }
    const bool has_unit = digits > 0 && digits < text.size() &&
                          std::all_of(text.begin() + static_cast<std::ptrdiff_t>(digits), text.end(),
                                      [](unsigned char c) { return std::isalpha(c) != 0 || c == ' '; });
    if (has_unit) {
        return quoted(text) + " carries a unit or letters; write the number alone: " + text.substr(0, digits);
    }
    if (digits < text.size()) return quoted(text) + " is not a whole number";
    return std::nullopt;
}

std::string with_unit(std::uint64_t bytes) {
    for (const Unit& unit : units) {
        if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
            return std::to_string(bytes / unit.bytes) + std::string(unit.name);
        }
    }
    return std::to_string(bytes);
}

// "16GB", "16 gib" and "16G" all mean one of ours, most likely.
std::string unit_meant(char letter) {
    const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    for (const Unit& unit : units) {
        if (unit.name[0] == upper) return std::string(unit.name);
    }
    return "";
}

Wrong parse_bytes(const std::string& text, std::uint64_t& bytes) {
    const std::size_t digits = leading_digits(text);
    if (digits == 0) {
        return quoted(text) +
               " is not a size; write a whole number and a unit (KiB, MiB, GiB or TiB), "
               "such as 16GiB";
    }
    std::uint64_t factor = 1;
    const std::string_view suffix = std::string_view(text).substr(digits);
    if (!suffix.empty()) {
        const auto* const unit =
            std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == suffix; });
        if (unit == units.end()) {
            const std::size_t letter = suffix.find_first_not_of(' ');
            const std::string meant = letter == std::string_view::npos ? "" : unit_meant(suffix[letter]);
            const std::string hint =
                meant.empty() ? "" : "; did you mean " + text.substr(0, digits) + meant + "?";
            return "in " + quoted(text) + " the unit " + quoted(suffix) +
                   " is unknown; the units are KiB, MiB, GiB and TiB, without a space before them" + hint;
        }
        factor = unit->bytes;
    }
    const std::uint64_t number = to_number(std::string_view(text).substr(0, digits));
    const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
    bytes = number > largest / factor ? largest : number * factor;
    return std::nullopt;
}

constexpr std::uint32_t last_core = CPU_SETSIZE - 1;

std::optional<std::uint32_t> parse_core(std::string_view text) {
    if (text.empty() || leading_digits(text) != text.size()) return std::nullopt;
    const std::uint64_t core = to_number(text);
    if (core > last_core) return std::nullopt;
    return static_cast<std::uint32_t>(core);
}

Wrong add_cores(std::string_view part, std::vector<std::uint32_t>& cores) {
    const std::size_t dash = part.find('-');
    const auto first = parse_core(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_core(part.substr(dash + 1));
    if (!first || !last) {
        return quoted(part) + " is neither a core nor a range of cores from 0 to " +
               std::to_string(last_core);
    }
    if (*last < *first) return "the range " + quoted(part) + " runs backwards";
    for (std::uint32_t core = *first; core <= *last; ++core) {
        if (std::find(cores.begin(), cores.end(), core) != cores.end()) {
            return "core " + std::to_string(core) + " is listed twice";
        }
        cores.push_back(core);
    }
    return std::nullopt;
}

std::string print_cores(const std::vector<std::uint32_t>& cores) {
    if (cores.empty()) return "auto";
    std::string text;
    for (std::size_t i = 0; i < cores.size();) {
        std::size_t last = i;
        while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
        if (!text.empty()) text += ",";
        text += std::to_string(cores[i]);
        if (last > i) text += "-" + std::to_string(cores[last]);
        i = last + 1;
    }
    return quoted(text);
}

}  // namespace

ValueType<std::uint32_t> whole_number(std::uint32_t min, std::uint32_t max) {
    return {.name = "whole number",
            .allowed = std::to_string(min) + ".." + std::to_string(max),
            .parse = [min, max](const Scalar& scalar, std::uint32_t& out) -> Wrong {
                if (Wrong wrong = not_a_whole_number(scalar)) return wrong;
                const std::uint64_t value = to_number(scalar.text);
                if (value < min || value > max) return scalar.text + " is out of range";
                out = static_cast<std::uint32_t>(value);
                return std::nullopt;
            },
            .print = [](const std::uint32_t& value) { return std::to_string(value); }};
}

ValueType<std::optional<std::uint32_t>> numa_node() {
    const auto number = whole_number(0, 1023);
    return {.name = "node",
            .allowed = "auto, or " + number.allowed,
            .parse = [number](const Scalar& scalar, std::optional<std::uint32_t>& out) -> Wrong {
                out.reset();
                if (scalar.text == "auto") return std::nullopt;
                return number.parse(scalar, out.emplace());
            },
            .print =
                [](const std::optional<std::uint32_t>& node) {
                    return node ? std::to_string(*node) : std::string("auto");
                }};
}

ValueType<std::uint64_t> byte_size(std::uint64_t min, std::uint64_t max) {
    return {.name = "size in bytes",
            .allowed = with_unit(min) + ".." + with_unit(max),
            .parse = [min, max](const Scalar& scalar, std::uint64_t& out) -> Wrong {
                std::uint64_t bytes = 0;
                if (Wrong wrong = parse_bytes(scalar.text, bytes)) return wrong;
                if (bytes < min || bytes > max) return scalar.text + " is out of range";
                out = bytes;
                return std::nullopt;
            },
            .print = with_unit};
}

ValueType<bool> on_off() {
    return {.name = "true or false",
            .allowed = "true or false",
            .parse = [](const Scalar& scalar, bool& out) -> Wrong {
                const bool known = scalar.text == "true" || scalar.text == "false";
                if (known && scalar.quoted) {
                    return quoted(scalar.text) + " is text because of its quotes; write " + scalar.text;
                }
                if (!known) return quoted(scalar.text) + " is neither true nor false";
                out = scalar.text == "true";
                return std::nullopt;
            },
            .print = [](const bool& value) -> std::string { return value ? "true" : "false"; }};
}

ValueType<std::uint32_t> file_mode() {
    ValueType<std::uint32_t> type =
        choice<std::uint32_t>({{"0600", 0600}, {"0640", 0640}, {"0660", 0660}, {"0666", 0666}});
    type.name = "file mode, octal";
    // Unquoted, other YAML readers would take it for a number.
    type.print = [print = type.print](const std::uint32_t& mode) { return quoted(print(mode)); };
    return type;
}

ValueType<std::vector<std::uint32_t>> core_list() {
    return {.name = "list of cores",
            .allowed = "auto, or cores and ranges of cores such as \"2-5,8\"",
            .parse = [](const Scalar& scalar, std::vector<std::uint32_t>& out) -> Wrong {
                std::vector<std::uint32_t> cores;
                std::string_view rest = scalar.text;
                while (scalar.text != "auto") {
                    const std::size_t comma = rest.find(',');
                    if (Wrong wrong = add_cores(rest.substr(0, comma), cores)) return wrong;
                    if (comma == std::string_view::npos) break;
                    rest.remove_prefix(comma + 1);
                }
                std::sort(cores.begin(), cores.end());
                out = std::move(cores);
                return std::nullopt;
            },
            .print = print_cores};
}

std::string listed(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += words[i];
    }
    return text;
}

std::string not_a_choice(const std::string& text, const std::vector<std::string>& words) {
    const auto meant = nearest(text, words);
    return quoted(text) + " is not an allowed value" + (meant ? "; did you mean " + *meant + "?" : "");
}

}  // namespace croupier::config
