// A request and its answer, as bytes and as what routes see of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace croupier::daemon {

constexpr std::size_t kLongestRequest = 8192;

// A page loads nothing from elsewhere and runs no script but the daemon's own, whatever a session is called;
// no other site may frame it.
constexpr std::string_view kOwnPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct HttpRequest {
    std::string_view method;
    std::string_view path;
    std::string_view query;  // behind the question mark; empty without one
};

struct HttpReply;
class HttpHosts;

// A reply that is made while others are served. It is kept until the reply is read or its peer is gone.
class LateReply {
  public:
    virtual ~LateReply() = default;
    // Once; nothing: not yet.
    virtual std::optional<HttpReply> take() = 0;
};

struct HttpReply {
    int status = 200;
    std::string body;
    std::string_view content_type = "text/plain; charset=utf-8";
    std::string_view content_policy = kOwnPolicy;
    std::unique_ptr<LateReply> later = nullptr;  // then nothing else counts
};

struct HttpRoute {
    std::string path;
    std::function<HttpReply(const HttpRequest&)> answer;
    bool is_large = false;  // its replies may take milliseconds
};
using HttpRoutes = std::vector<HttpRoute>;

// The value of `name` in a query, as it stands there; empty where it has none.
std::string_view query_value(std::string_view query, std::string_view name);

// Of the route that the request names, if there is one.
bool wants_large(std::string_view text, const HttpRoutes& routes);

// `text` ends with the blank line, unless it has grown too long without one.
HttpReply reply_to(std::string_view text, const HttpRoutes& routes, const HttpHosts& hosts);
// Everything that is sent back to that request.
std::string http_answer(std::string_view text, const HttpReply& reply);

}  // namespace croupier::daemon
