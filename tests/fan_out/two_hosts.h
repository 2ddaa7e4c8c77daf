// Two hosts for a test: network namespaces that a veth pair joins, or one address for both.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace croupier::testing {

class TwoHosts {
  public:
    // Both at 127.0.0.1.
    TwoHosts() = default;
    // Nothing, and why, where this user may not make namespaces.
    static std::optional<TwoHosts> in_namespaces(std::string& why_not);
    TwoHosts(TwoHosts&& other) noexcept;
    TwoHosts& operator=(TwoHosts&&) = delete;
    ~TwoHosts();

    const std::string& engine_address() const { return engine_address_; }
    const std::string& stage_address() const { return stage_address_; }
    // What `work` starts, processes, threads and sockets, is on that host.
    void on_engine_host(const std::function<void()>& work) const { within(engine_, work); }
    void on_stage_host(const std::function<void()>& work) const { within(stage_, work); }
    // Of two namespaces: from now on each host drops what comes from the other, and neither is told. False:
    // this kernel cannot.
    bool cut() const;
    void mend() const;

  private:
    static void within(const std::string& name, const std::function<void()>& work);

    std::string engine_;  // names of namespaces; empty: this one
    std::string stage_;
    std::string engine_address_ = "127.0.0.1";
    std::string stage_address_ = "127.0.0.1";
};

}  // namespace croupier::testing
