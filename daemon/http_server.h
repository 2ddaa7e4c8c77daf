// /metrics, /livez and /readyz.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "shm/error.h"

class CivetServer;

namespace croupier::daemon {

// What the supervisor tells the outside about itself.
struct Health {
    std::atomic<bool> ready{false};
    std::atomic<bool> draining{false};
    std::atomic<std::uint64_t> last_turn_ns{0};
};

class HttpServer {
  public:
    // `listen` is host:port.
    static shm::Result<std::unique_ptr<HttpServer>> start(const std::string& listen,
                                                          const std::string& shm_directory,
                                                          const std::string& instance, const Health& health);
    ~HttpServer();

  private:
    class Page;
    HttpServer();
    void call_once() const;

    std::string host_;
    int port_ = 0;
    // The server goes first: its threads use the pages.
    std::unique_ptr<Page> metrics_;
    std::unique_ptr<Page> livez_;
    std::unique_ptr<Page> readyz_;
    std::unique_ptr<CivetServer> server_;
};

}  // namespace croupier::daemon
