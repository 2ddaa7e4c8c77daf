#include "daemon/http_server.h"

#include <CivetServer.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "daemon/metrics.h"
#include "shm/clock.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

// The supervisor turns at least every 25 ms; a second without a turn is trouble, five are a hang.
constexpr std::uint64_t kLivenessLimitNs = 5'000'000'000;

struct Answer {
    int status = 200;
    std::string body;
};

Answer metrics_page(const std::string& directory, const std::string& instance) {
    auto snapshot = shm::observe(directory, instance);
    if (!snapshot) return {503, "# " + snapshot.error().message + "\n"};
    return {200, prometheus::TextSerializer().Serialize(to_metrics(snapshot.value()))};
}

Answer livez_page(const Health& health) {
    const std::uint64_t age = shm::monotonic_ns() - health.last_turn_ns.load(std::memory_order_relaxed);
    if (age < kLivenessLimitNs) return {200, "ok\n"};
    return {503, "the supervisor has not turned for " + std::to_string(age / 1'000'000) + " ms\n"};
}

Answer readyz_page(const Health& health) {
    if (health.draining.load(std::memory_order_relaxed)) return {503, "draining\n"};
    if (!health.ready.load(std::memory_order_relaxed)) return {503, "no sampler runs, or one still starts\n"};
    return {200, "ok\n"};
}

}  // namespace

class HttpServer::Page : public CivetHandler {
  public:
    explicit Page(std::function<Answer()> make) : make_(std::move(make)) {}

    bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
        const Answer answer = make_();
        mg_printf(connection,
                  "HTTP/1.1 %d %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                  "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                  answer.status, answer.status == 200 ? "OK" : "Service Unavailable", answer.body.size());
        mg_write(connection, answer.body.data(), answer.body.size());
        return true;
    }

  private:
    std::function<Answer()> make_;
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() {
    if (!server_) return;
    // The listener looks only every two seconds whether it should end, or when somebody calls; all that time
    // the next daemon would find the instance locked and the port taken.
    const std::jthread caller([this](const std::stop_token& closed) {
        while (!closed.stop_requested()) {
            call_once();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    server_->close();
}

void HttpServer::call_once() const {
    std::array<char, 128> why{};
    mg_connection* call = mg_connect_client(host_.c_str(), port_, 0, why.data(), why.size());
    if (call != nullptr) mg_close_connection(call);
}

shm::Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& listen,
                                                           const std::string& shm_directory,
                                                           const std::string& instance,
                                                           const Health& health) {
    std::unique_ptr<HttpServer> made(new HttpServer());
    made->metrics_ =
        std::make_unique<Page>([shm_directory, instance] { return metrics_page(shm_directory, instance); });
    made->livez_ = std::make_unique<Page>([&health] { return livez_page(health); });
    made->readyz_ = std::make_unique<Page>([&health] { return readyz_page(health); });
    try {
        made->server_ = std::make_unique<CivetServer>(std::vector<std::string>{
            "listening_ports", listen, "num_threads", "2", "request_timeout_ms", "5000"});
    } catch (const CivetException& error) {
        return shm::fail(
            shm::Errc::system_error,
            "cannot serve metrics on " + listen + " (metrics.listen): is the port taken? " + error.what());
    }
    made->host_ = listen.substr(0, listen.rfind(':'));
    made->port_ = made->server_->getListeningPorts().front();
    made->server_->addHandler("/metrics", *made->metrics_);
    made->server_->addHandler("/livez", *made->livez_);
    made->server_->addHandler("/readyz", *made->readyz_);
    return made;
}

}  // namespace croupier::daemon
