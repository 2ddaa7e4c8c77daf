#include "daemon/observation/explain_query.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace croupier::daemon {
namespace {

constexpr const char* kExample =
    "; as in /explain?session=replica-0&uid=7, with &format=json for the request";
constexpr std::size_t kMostShown = 80;

shm::Error wrong(const std::string& what) {
    return {shm::Errc::bad_argument, what + kExample};
}

std::optional<std::uint8_t> byte_of(std::string_view two_digits) {
    std::uint8_t value = 0;
    const char* const end = two_digits.data() + two_digits.size();
    const auto read = std::from_chars(two_digits.data(), end, value, 16);
    return two_digits.size() == 2 && read.ec == std::errc{} && read.ptr == end ? std::optional(value)
                                                                               : std::nullopt;
}

// As forms write it: %2F is a byte, + is a blank.
std::optional<std::string> decoded(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        const auto byte = byte_of(text.substr(i + 1, 2));
        if (!byte) return std::nullopt;
        result += static_cast<char>(*byte);
        i += 2;
    }
    return result;
}

shm::Result<bool> read_uid(const std::string& value, std::uint64_t& uid) {
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, uid);
    if (value.empty() || read.ec != std::errc{} || read.ptr != end)
        return wrong("uid is '" + printable(value) + "', and should be a whole number of 64 bits");
    return true;
}

shm::Result<bool> read_field(const std::string& key, const std::string& value, ExplainQuery& query) {
    if (key == "session") {
        query.session = value;
        return true;
    }
    if (key == "uid") return read_uid(value, query.uid);
    if (key != "format") return wrong("'" + printable(key) + "' is not known; known: session, uid, format");
    if (value != "html" && value != "json")
        return wrong("format is '" + printable(value) + "'; allowed: html or json");
    query.as_json = value == "json";
    return true;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string result;
    for (const char c : text.substr(0, kMostShown)) {
        if (c >= ' ' && c <= '~') {
            result += c;
        } else {
            result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text.size() > kMostShown ? result + "..." : result;
}

shm::Result<ExplainQuery> parse_explain_query(std::string_view query) {
    ExplainQuery result;
    std::vector<std::string> seen;
    while (!query.empty()) {
        const std::string_view field = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), field.size() + 1));
        if (field.empty()) continue;
        const std::size_t equals = field.find('=');
        if (equals == std::string_view::npos) return wrong("'" + printable(field) + "' has no value");
        const auto key = decoded(field.substr(0, equals));
        const auto value = decoded(field.substr(equals + 1));
        if (!key || !value) return wrong("'" + printable(field) + "' has a % without two digits behind it");
        if (std::find(seen.begin(), seen.end(), *key) != seen.end())
            return wrong("'" + printable(*key) + "' stands there twice");
        seen.push_back(*key);
        CROUPIER_TRY(read_field(*key, *value, result));
    }
    for (const char* needed : {"session", "uid"}) {
        if (std::find(seen.begin(), seen.end(), needed) == seen.end())
            return wrong(std::string(needed) + " is missing");
    }
    return result;
}

}  // namespace croupier::daemon
