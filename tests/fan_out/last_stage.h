// The host of a last pipeline stage, in real processes: croupierd, a relay, a writer. And a scheduler
// elsewhere.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/fan_out.h"
#include "fan_out/fan_out.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "tests/fan_out/two_hosts.h"

namespace croupier::testing {

struct CurvePair {
    CurvePair();
    std::string open;
    std::string secret;
};

// The binary of this name that lies beside this test's, in a build and in a bundle.
std::string program_beside(const std::string& name);

// What a scheduler has to know.
struct Route {
    std::string root;  // where it listens for its relay
    std::string own_key;
    std::string own_secret;
    std::string relay_key;
    fan_out::Transport transport =
        fan_out::Transport::zmq;  // NCCL: device 0 is the scheduler's, 1 the relay's
};

class LastStage {
  public:
    explicit LastStage(const TwoHosts& hosts, fan_out::Transport transport = fan_out::Transport::zmq);

    const TwoHosts& hosts() const { return *hosts_; }
    const Route& route() const { return route_; }
    DaemonProcess& daemon() { return *daemon_; }

    // With what else is asked of it on the command line.
    void start_relay(const std::vector<std::string>& more = {});
    void kill_relay();
    // SIGSTOP, and SIGCONT: it reads nothing in between.
    void pause_relay() const;
    void resume_relay() const;
    // SIGTERM: its exit status.
    int stop_relay();
    std::string relay_log() const;
    void start_writer(const std::string& segment_path);
    // The same with a GPU each, 0 and 1, from whose memory the logits come.
    void start_gpu_writers(const std::string& segment_path);
    std::string writer_log() const;
    void stop_writer() { writer_.kill_and_reap(); }

  private:
    const TwoHosts* hosts_;
    Sandbox files_;
    Route route_;
    std::string relay_secret_;
    std::unique_ptr<DaemonProcess> daemon_;
    testing::ChildProcess relay_;
    testing::ChildProcess writer_;
    testing::ChildProcess second_writer_;
};

// The root of the group that a scheduler and its relay are.
class RelayGroup {
  public:
    explicit RelayGroup(const Route& route);
    const croupier_record_channel* channel() const { return &channel_; }

  private:
    struct Close {
        void operator()(croupier_fan_out* group) const { croupier_fan_out_close(group); }
    };
    std::unique_ptr<croupier_fan_out, Close> group_;
    croupier_record_channel channel_;
};

using Tokens = std::map<std::uint64_t, std::vector<std::int32_t>>;

// Serves sequences 1 to `sequences`, half of them in each of two steps in flight. It has every token once,
// however often it begins again: positions tell what it has.
class RemoteScheduler {
  public:
    RemoteScheduler(Route route, std::uint64_t sequences, bool masked = false)
        : route_(std::move(route)), sequences_(sequences), masked_(masked) {}

    // Opens the session or goes on with it, finds out how far it is, and adds what is not live.
    void open();
    void open_without_recovery();
    // Ends the group without a word to the daemon.
    void leave();
    void serve(std::size_t tokens_each);
    void submit(std::uint64_t half);
    void take();  // the oldest step in flight
    // False: it was not decided in time.
    bool take_within(std::uint32_t timeout_ms);
    void close();

    client::Session& session() { return *session_; }
    const Tokens& tokens() const { return tokens_; }
    // What an earlier scheduler has delivered.
    void remember(Tokens tokens) { tokens_ = std::move(tokens); }
    std::uint32_t delivered_again() const { return again_; }

    static constexpr std::uint32_t kVocab = 1000;

  private:
    void recover();

    Route route_;
    std::uint64_t sequences_;
    bool masked_;
    std::unique_ptr<RelayGroup> group_;
    std::unique_ptr<client::Session> session_;
    Tokens tokens_;
    std::uint32_t again_ = 0;
};

// What its waits fail with, or its steps, once they do; empty: they do not.
std::string failure_of_waiting(RemoteScheduler& scheduler);
std::string failure_of_going_on(RemoteScheduler& scheduler);

// A small session's, over that group.
client::OpenOptions options_through(const RelayGroup& group);

// The tokens that a session of this host gives for the same requests, every decision checked against the
// reference.
Tokens served_locally(std::uint64_t sequences, std::size_t tokens_each, bool masked = false);

// A scheduler in a process of its own, that says each token it has as "uid position token".
constexpr std::uint64_t kProcessSequences = 6;
testing::ChildProcess start_scheduler_process(const Route& route, const std::string& output);

}  // namespace croupier::testing
