#include "daemon/observation/http_message.h"

#include <algorithm>
#include <utility>

#include "daemon/observation/http_hosts.h"

namespace croupier::daemon {
namespace {

const char* reason(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 400:
            return "Bad Request";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 421:
            return "Misdirected Request";
        case 422:
            return "Unprocessable Content";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 504:
            return "Gateway Timeout";
        default:
            return "Service Unavailable";
    }
}

// Of the first line: METHOD PATH[?QUERY] VERSION.
HttpRequest parse(std::string_view text) {
    const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    const auto method_ends = std::min(line.find(' '), line.size());
    std::string_view rest = line.substr(std::min(method_ends + 1, line.size()));
    rest = rest.substr(0, rest.find(' '));
    const auto path_ends = std::min(rest.find('?'), rest.size());
    return {line.substr(0, method_ends), rest.substr(0, path_ends),
            rest.substr(std::min(path_ends + 1, rest.size()))};
}

HttpReply not_found(const HttpRoutes& routes) {
    std::string text = "there are";
    for (const HttpRoute& route : routes) text += " " + route.path;
    return {404, text + "\n"};
}

// No other site reads an answer, and no cache keeps it.
constexpr std::string_view kSecurityHeaders =
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

}  // namespace

std::string_view query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(pair.size() + 1, query.size()));
        const auto equals = pair.find('=');
        if (equals != std::string_view::npos && pair.substr(0, equals) == name)
            return pair.substr(equals + 1);
    }
    return {};
}

bool wants_large(std::string_view text, const HttpRoutes& routes) {
    const std::string_view path = parse(text).path;
    return std::any_of(routes.begin(), routes.end(),
                       [&](const HttpRoute& each) { return each.is_large && each.path == path; });
}

HttpReply reply_to(std::string_view text, const HttpRoutes& routes, const HttpHosts& hosts) {
    if (text.find("\r\n\r\n") == std::string_view::npos) {
        return {431, "a request has at most " + std::to_string(kLongestRequest) + " bytes\n"};
    }
    const HttpRequest request = parse(text);
    if (request.method != "GET" && request.method != "HEAD") {
        return {405, "only GET and HEAD are answered\n"};
    }
    if (auto refused = hosts.refusal(text)) return std::move(*refused);
    const auto route = std::find_if(routes.begin(), routes.end(),
                                    [&](const HttpRoute& each) { return each.path == request.path; });
    return route == routes.end() ? not_found(routes) : route->answer(request);
}

std::string http_answer(std::string_view text, const HttpReply& reply) {
    std::string answer = "HTTP/1.1 " + std::to_string(reply.status) + " " + reason(reply.status) +
                         "\r\nContent-Type: " + std::string(reply.content_type) +
                         "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n";
    if (reply.status == 405) answer += "Allow: GET, HEAD\r\n";
    answer += "Content-Security-Policy: " + std::string(reply.content_policy) + "\r\n";
    answer += kSecurityHeaders;
    answer += "Connection: close\r\n\r\n";
    if (parse(text).method != "HEAD") answer += reply.body;
    return answer;
}

}  // namespace croupier::daemon
