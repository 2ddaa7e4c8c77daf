// /metrics, /livez, /readyz and /explain: one thread and non-blocking sockets, so that a peer who is slow
// holds up itself only.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/explain_route.h"
#include "shm/file.h"

namespace croupier::daemon {

// What the supervisor tells the outside about itself.
struct Health {
    std::atomic<bool> ready{false};
    std::atomic<bool> draining{false};
    std::atomic<std::uint64_t> last_turn_ns{0};
};

class HttpServer {
  public:
    // `listen` is host:port. `explains`: null where nothing is explained.
    static shm::Result<std::unique_ptr<HttpServer>> start(const std::string& listen,
                                                          const std::string& shm_directory,
                                                          const std::string& instance, const Health& health,
                                                          std::unique_ptr<ExplainRoute> explains);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

  private:
    struct Connection;

    HttpServer(shm::FileDescriptor listener, shm::FileDescriptor stop, std::string shm_directory,
               std::string instance, const Health& health, std::unique_ptr<ExplainRoute> explains);
    void serve();
    void accept_one();
    bool go_on(Connection& connection) const;
    // False: its peer is gone, or said what nobody asked for.
    bool is_awaited(const Connection& connection) const;
    void answer(Connection& connection, bool whole) const;
    // How many connections wait for one, or have not read theirs.
    std::ptrdiff_t explanations() const;
    // Of explanations that are there now.
    void take_explanations();
    void close(Connection& connection) const;

    shm::FileDescriptor listener_;
    shm::FileDescriptor stop_;
    std::string shm_directory_;
    std::string instance_;
    const Health* health_;
    std::unique_ptr<ExplainRoute> explains_;
    std::vector<Connection> connections_;  // the oldest first
    std::thread thread_;
};

}  // namespace croupier::daemon
