#include "tools/relay/command.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <array>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

#include "config/config.h"
#include "fan_out/relay.h"
#include "proto/curve.h"

namespace croupier::tools {
namespace {

using fan_out::Transport;

struct RelayOptions {
    fan_out::FanOutOptions group;
    std::string key_file;
    std::string directory = config::Shm().dir;
    std::string instance = "default";
};

std::atomic<bool>& stop_flag() {
    static std::atomic<bool> stop{false};
    return stop;
}

void stop_on(int signal) {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_flag().store(true, std::memory_order_relaxed); };
    ::sigaction(signal, &action, nullptr);
}

// The first word of the file; its public half is computed.
void read_keys(const std::string& path, fan_out::FanOutKeys& keys) {
    std::ifstream file(path);
    if (!(file >> keys.own_secret)) throw std::runtime_error("cannot read a key from " + path);
    std::array<char, proto::kCurveKeyLength + 1> open{};
    if (keys.own_secret.size() != proto::kCurveKeyLength ||
        zmq_curve_public(open.data(), keys.own_secret.c_str()) != 0) {
        throw std::runtime_error(path + " holds no secret CURVE key, which has 40 characters of Z85");
    }
    keys.own_public = open.data();
}

int run_relay(RelayOptions options) {
    stop_on(SIGTERM);
    stop_on(SIGINT);
    if (!options.key_file.empty()) read_keys(options.key_file, options.group.keys);
    fan_out::Relay(options.group, options.directory, options.instance).run(stop_flag());
    return 0;
}

}  // namespace

void add_relay_command(CLI::App& app, int& status) {
    auto options = std::make_shared<RelayOptions>();
    options->group.member = 1;
    // Short, so that it sees a stop in time; it tries again for as long as it runs.
    options->group.join_timeout = std::chrono::milliseconds(1000);
    auto* relay = app.add_subcommand(
        "relay", "Write the records of a scheduler on another host into the session's ring on this one");
    relay->footer(
        "Runs beside the daemon of the last pipeline stage; docs/several-hosts.md says when and how.\n"
        "It waits for a scheduler, serves it until that dies or leaves, and waits for the next.");
    relay
        ->add_option("--root", options->group.endpoint,
                     "Where the scheduler listens: tcp://<host>:<port>, or ipc://<path> on this host")
        ->required();
    relay->add_option("--key-file", options->key_file, "For tcp: a file with this member's secret CURVE key");
    relay->add_option("--root-key", options->group.keys.peer_public,
                      "For tcp: the scheduler's public CURVE key");
    relay->add_option("--members", options->group.members, "Of the group, the scheduler included")
        ->capture_default_str();
    relay->add_option("--member", options->group.member, "Which of them this is; 0 is the scheduler")
        ->capture_default_str();
    relay->add_option("--transport", options->group.transport, "How records come: zmq (default) or nccl")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, Transport>{{"zmq", Transport::zmq}, {"nccl", Transport::nccl}}));
    relay->add_option("--device", options->group.device, "With nccl: this member's GPU")
        ->capture_default_str();
    relay->add_option("-i,--instance", options->instance, "The daemon's `instance`")->capture_default_str();
    relay->add_option("--shm-dir", options->directory, "The daemon's `shm.dir`")->capture_default_str();
    relay->callback([options, &status] {
        try {
            status = run_relay(*options);
        } catch (const std::exception& failure) {
            spdlog::error("relay: {}", failure.what());
            status = 1;
        }
    });
}

}  // namespace croupier::tools
