#include "config/texts.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <functional>
#include <utility>

namespace croupier::config {

namespace {

constexpr std::string_view ipc_scheme = "ipc://";
constexpr std::string_view tcp_scheme = "tcp://";
constexpr std::size_t longest_host_name = 253;
constexpr std::size_t longest_ipc_path = sizeof(sockaddr_un::sun_path) - 1;

bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_word(char c) {
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
}

Wrong check_absolute_path(const std::string& text) {
    if (text.empty() || text[0] != '/') return quoted(text) + " is not an absolute path; begin it with /";
    if (text.size() >= PATH_MAX)
        return quoted(text) + " is longer than " + std::to_string(PATH_MAX - 1) + " bytes";
    for (std::size_t from = 1, to = 0; to != std::string::npos; from = to + 1) {
        to = text.find('/', from);
        if (std::min(to, text.size()) - from > NAME_MAX) {
            return quoted(text) + " has a component of more than " + std::to_string(NAME_MAX) + " bytes";
        }
    }
    const bool control = std::any_of(text.begin(), text.end(), [](char c) { return c > 0 && c < ' '; });
    if (control || text.find('\0') != std::string::npos)
        return quoted(text) + " contains a control character";
    return std::nullopt;
}

Wrong check_port(std::string_view text, unsigned min) {
    unsigned port = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), port);
    const bool whole = !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
    if (whole && port >= min && port <= 65535) return std::nullopt;
    return "the port " + quoted(text) + " is not a number from " + std::to_string(min) + " to 65535";
}

Wrong check_host_port(std::string_view text, unsigned min_port) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return quoted(text) + " has no port; write host:port";
    const std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const std::string_view name = bracketed ? host.substr(1, host.size() - 2) : host;
    const bool valid = !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
        return is_word(c) || (bracketed && (c == ':' || c == '%'));
    });
    if (!valid) {
        return "the host " + quoted(host) +
               " is neither a name nor an address (an IPv6 address stands in [ ])";
    }
    return check_port(text.substr(colon + 1), min_port);
}

Wrong check_endpoint(const std::string& text) {
    if (is_tcp(text)) {
        const std::string_view address = std::string_view(text).substr(tcp_scheme.size());
        const bool every_interface = address.substr(0, 2) == "*:";
        return every_interface ? check_port(address.substr(2), 1) : check_host_port(address, 1);
    }
    if (text.rfind(ipc_scheme, 0) != 0) return quoted(text) + " begins with neither ipc:// nor tcp://";
    const std::string path = text.substr(ipc_scheme.size());
    if (Wrong wrong = check_absolute_path(path)) return "after ipc://, " + *wrong;
    if (path.size() > longest_ipc_path) {
        return "the path of the socket has " + std::to_string(path.size()) +
               " bytes, and a UNIX socket's may have " + std::to_string(longest_ipc_path);
    }
    return std::nullopt;
}

Wrong add_host_name(std::string_view name, std::vector<std::string>& names) {
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) return "has an empty name between its commas";
    const bool valid = name.size() <= longest_host_name && std::all_of(name.begin(), name.end(), is_word);
    if (!valid) return quoted(name) + " is not the name of a host; write it without scheme, port and path";
    names.emplace_back(name);
    return std::nullopt;
}

ValueType<std::string> text_type(std::string name, std::string allowed,
                                 std::function<Wrong(const std::string&)> check) {
    return {.name = std::move(name),
            .allowed = std::move(allowed),
            .parse = [check = std::move(check)](const Scalar& scalar, std::string& out) -> Wrong {
                if (Wrong wrong = check(scalar.text)) return wrong;
                out = scalar.text;
                return std::nullopt;
            },
            .print = [](const std::string& text) { return quoted(text); }};
}

}  // namespace

ValueType<std::string> instance_name() {
    return text_type("name", "1 to 32 of a-z, 0-9 and -", [](const std::string& text) -> Wrong {
        const bool valid =
            std::all_of(text.begin(), text.end(), [](char c) { return is_lower_or_digit(c) || c == '-'; });
        if (text.empty()) return "the name is empty";
        if (text.size() > longest_instance_name)
            return quoted(text) + " has " + std::to_string(text.size()) + " characters";
        if (!valid) return quoted(text) + " contains a character that is not allowed";
        return std::nullopt;
    });
}

ValueType<std::string> group_name() {
    return text_type(
        "group", "empty, or the name or the number of a group", [](const std::string& text) -> Wrong {
            const bool valid = text.size() <= 32 && std::all_of(text.begin(), text.end(), is_word);
            if (!valid) return quoted(text) + " cannot be the name of a group";
            return std::nullopt;
        });
}

ValueType<std::string> directory(std::size_t longest) {
    return text_type("path", "an absolute path of at most " + std::to_string(longest) + " bytes",
                     [longest](const std::string& text) -> Wrong {
                         if (Wrong wrong = check_absolute_path(text)) return wrong;
                         if (text.size() <= longest) return std::nullopt;
                         return "the path has " + std::to_string(text.size()) +
                                " bytes, and names of files in it come on top";
                     });
}

ValueType<std::string> optional_file() {
    return text_type("path", "empty, or an absolute path", [](const std::string& text) -> Wrong {
        return text.empty() ? std::nullopt : check_absolute_path(text);
    });
}

ValueType<std::string> endpoint() {
    return text_type("endpoint",
                     "ipc://<absolute path of at most " + std::to_string(longest_ipc_path) +
                         " bytes> or tcp://<host>:<port>",
                     check_endpoint);
}

ValueType<std::string> listen_address() {
    return text_type("address", "<host>:<port> with a port of 0..65535, or off",
                     [](const std::string& text) -> Wrong {
                         return text == "off" ? std::nullopt : check_host_port(text, 0);
                     });
}

ValueType<std::vector<std::string>> host_names() {
    return {.name = "host names",
            .allowed = "empty, or names separated by commas",
            .parse = [](const Scalar& scalar, std::vector<std::string>& out) -> Wrong {
                std::vector<std::string> names;
                std::string_view rest = scalar.text;
                while (!scalar.text.empty()) {
                    const std::size_t comma = rest.find(',');
                    if (Wrong wrong = add_host_name(rest.substr(0, comma), names)) return wrong;
                    if (comma == std::string_view::npos) break;
                    rest.remove_prefix(comma + 1);
                }
                out = std::move(names);
                return std::nullopt;
            },
            .print =
                [](const std::vector<std::string>& names) {
                    std::string text;
                    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
                    return quoted(text);
                }};
}

bool is_tcp(std::string_view endpoint) {
    return endpoint.substr(0, tcp_scheme.size()) == tcp_scheme;
}

std::string with_colon(std::string_view text) {
    const auto* const after = std::find_if_not(text.begin(), text.end(), is_word);
    const std::string_view key = text.substr(0, static_cast<std::size_t>(after - text.begin()));
    if (key.empty()) return "";
    const std::size_t value = text.find_first_not_of(" \t:=", key.size());
    const std::string meant = std::string(key) + ":";
    return value == std::string_view::npos ? meant : meant + " " + std::string(text.substr(value));
}

std::string quoted(std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            result += "\\x";
            result += hex[byte >> 4U];
            result += hex[byte & 15U];
        } else {
            result += c;
        }
    }
    return result + "\"";
}

}  // namespace croupier::config
