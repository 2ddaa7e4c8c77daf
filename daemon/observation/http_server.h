// The metrics port: one thread and non-blocking sockets, so that a peer who is slow holds up itself only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/observation/http_hosts.h"
#include "daemon/observation/http_message.h"
#include "shm/file.h"

namespace croupier::daemon {

// Whether a server could start there now, as far as that is known at once.
shm::Result<bool> can_serve_at(const std::string& listen);

class HttpServer {
  public:
    static constexpr std::chrono::milliseconds kTick{50};

    // `listen` is host:port; already_held where another process has it. `hosts` are the names that it answers
    // to besides (http_hosts.h). The routes, their late replies and `each_tick` are called by the server's
    // thread alone. `late_event`: an eventfd that is readable when a late reply came; -1: none is late.
    static shm::Result<std::unique_ptr<HttpServer>> start(const std::string& listen,
                                                          const std::vector<std::string>& hosts,
                                                          HttpRoutes routes, int late_event,
                                                          std::function<void()> each_tick);
    ~HttpServer();

    // Where it listens: with the port that the system chose for port 0.
    std::string address() const;
    // For a browser on this host.
    std::string page() const;
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

  private:
    struct Connection;

    HttpServer(shm::FileDescriptor listener, shm::FileDescriptor stop, HttpHosts hosts, HttpRoutes routes,
               int late_event, std::function<void()> each_tick);
    void serve();
    void accept_all();
    static bool receive(Connection& connection);
    static bool is_heard(const Connection& connection);
    void take_late_replies();
    void answer_requests();
    static bool send_rest(Connection& connection);
    static bool hear_out(Connection& connection);
    void bound_memory();

    shm::FileDescriptor listener_;
    shm::FileDescriptor stop_;
    HttpHosts hosts_;
    HttpRoutes routes_;
    int late_event_;
    std::function<void()> each_tick_;
    std::vector<Connection> connections_;  // the oldest first
    std::thread thread_;
};

}  // namespace croupier::daemon
