#include "daemon/observation/http_hosts.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

namespace croupier::daemon {
namespace {

// What is quoted back of a name that nobody knows.
constexpr std::size_t kLongestQuoted = 80;

char to_lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// "example.com." is the same name as "example.com", and names have no case.
std::string canonical(std::string_view name) {
    if (name.ends_with('.')) name.remove_suffix(1);
    std::string text(name);
    std::transform(text.begin(), text.end(), text.begin(), to_lower);
    return text;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

// The values of all Host headers. A bare newline ends a line too: no proxy in front may read another Host
// than this server does.
std::vector<std::string_view> host_values(std::string_view request) {
    constexpr std::string_view kHost = "host:";
    std::vector<std::string_view> values;
    for (auto end = request.find('\n'); end != std::string_view::npos; end = request.find('\n')) {
        request.remove_prefix(end + 1);
        std::string_view line = request.substr(0, request.find('\n'));
        if (line.ends_with('\r')) line.remove_suffix(1);
        const std::string_view name = line.substr(0, kHost.size());
        const bool is_host = std::equal(name.begin(), name.end(), kHost.begin(), kHost.end(),
                                        [](char sent, char wanted) { return to_lower(sent) == wanted; });
        if (is_host) values.push_back(trimmed(line.substr(kHost.size())));
    }
    return values;
}

bool is_first_line_of(std::string_view request, std::string_view version) {
    std::string_view line = request.substr(0, request.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line.ends_with(version);
}

// Without its port; nothing where what follows the name is no port.
std::optional<std::string_view> without_port(std::string_view value) {
    const auto name_ends = value.starts_with('[') ? value.find(']') : std::size_t{0};
    if (name_ends == std::string_view::npos) return std::nullopt;
    const auto colon = value.find(':', name_ends);
    if (colon == std::string_view::npos) return value;
    const std::string_view port = value.substr(colon + 1);
    if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return std::nullopt;
    }
    return value.substr(0, colon);
}

bool is_address(std::string_view host) {
    std::array<unsigned char, sizeof(in6_addr)> ignored{};
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    if (bracketed) host = host.substr(1, host.size() - 2);
    // Behind the percent sign stands the interface of a link-local address.
    const std::string text(bracketed ? host.substr(0, host.find('%')) : host);
    return ::inet_pton(bracketed ? AF_INET6 : AF_INET, text.c_str(), ignored.data()) == 1;
}

std::string machine_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? canonical(name.data()) : std::string();
}

std::string quoted(std::string_view host) {
    std::string text(host.substr(0, kLongestQuoted));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return '"' + text + (host.size() > kLongestQuoted ? "...\"" : "\"");
}

}  // namespace

HttpHosts::HttpHosts(std::string_view listen, const std::vector<std::string>& configured)
    : own_name_(machine_name()), names_{"localhost", canonical(listen.substr(0, listen.rfind(':')))} {
    if (!own_name_.empty()) names_.push_back(own_name_);
    for (const std::string& name : configured) names_.push_back(canonical(name));
}

bool HttpHosts::allows(std::string_view host) const {
    return is_address(host) || std::find(names_.begin(), names_.end(), canonical(host)) != names_.end();
}

std::optional<HttpReply> HttpHosts::refusal(std::string_view request) const {
    const auto values = host_values(request);
    // Every browser sends it. HTTP/1.0 does without, and so do health checks that are written by hand.
    if (values.empty() && !is_first_line_of(request, "HTTP/1.1")) return std::nullopt;
    if (values.size() != 1) {
        return HttpReply{
            400, "a request has one Host header; this one has " + std::to_string(values.size()) + "\n"};
    }
    const auto host = without_port(values.front());
    if (host && allows(*host)) return std::nullopt;
    return HttpReply{421, "Host is " + quoted(values.front()) +
                              ", and this daemon answers to IP addresses, localhost" +
                              (own_name_.empty() ? "" : ", " + own_name_) +
                              " and the names in metrics.hosts of its configuration; if that name is "
                              "meant to lead here, add it there and restart the daemon\n"};
}

}  // namespace croupier::daemon
