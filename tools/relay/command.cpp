#include "tools/relay/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "command_line/choices.h"
#include "event_log/options.h"
#include "fan_out/relay.h"
#include "proto/curve.h"
#include "proto/default_paths.h"
#include "tools/relay/metrics.h"
#include "tools/relay/service.h"

namespace croupier::tools {
namespace {

using event_log::Event;
using fan_out::Transport;

struct RelayOptions {
    fan_out::FanOutOptions group;
    std::string key_file;
    std::string daemon = proto::serving_paths().control_endpoint();
    int engine = -1;
    std::string metrics;
    event_log::Settings log;
};

constexpr const char* kVariables = "CROUPIER_RELAY_";
// Short, so that the relay sees a stop soon while it waits for a scheduler.
constexpr std::chrono::seconds kJoin{1};
constexpr std::chrono::seconds kLongestNcclJoin{70};

std::atomic<bool>& stop_flag() {
    static std::atomic<bool> stop{false};
    return stop;
}

void stop_on(int signal) {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_flag().store(true, std::memory_order_relaxed); };
    ::sigaction(signal, &action, nullptr);
}

// Reads the secret key, which is alone in the file, and computes the public one.
void read_keys(const std::string& path, fan_out::FanOutKeys& keys) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read the key in " + path + ": " + std::strerror(errno));
    if (!(file >> keys.own_secret))
        throw std::runtime_error(path + " is empty; it should hold a secret CURVE key");
    std::array<char, proto::kCurveKeyLength + 1> open{};
    if (keys.own_secret.size() != proto::kCurveKeyLength ||
        zmq_curve_public(open.data(), keys.own_secret.c_str()) != 0) {
        throw std::runtime_error(path + " holds no secret CURVE key, which has 40 characters of Z85");
    }
    // Some programs write the public key first: it would be taken for the secret one.
    if (std::string more; file >> more)
        throw std::runtime_error(path + " holds more than a key; the secret one alone would be right");
    keys.own_public = open.data();
}

// Without this check a misspelt option in the environment would be ignored silently.
void check_environment(const CLI::App& relay) {
    std::vector<std::string> known;
    for (const CLI::Option* option : relay.get_options()) {
        if (!option->get_envname().empty()) known.push_back(option->get_envname());
    }
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
        if (!name.starts_with(kVariables) || std::find(known.begin(), known.end(), name) != known.end())
            continue;
        throw std::runtime_error("the environment has " + name + ", which is no option; they are " +
                                 CLI::detail::join(known, ", "));
    }
}

void name_variables(CLI::App& relay) {
    for (CLI::Option* option : relay.get_options()) {
        if (option->get_lnames().empty() || option == relay.get_help_ptr()) continue;
        // A descriptor is of one process.
        if (option->get_lnames().front() == "engine-fd") continue;
        std::string name = option->get_lnames().front();
        std::transform(name.begin(), name.end(), name.begin(),
                       [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
        option->envname(kVariables + name);
    }
}

// The kernel tells of the process' end, whatever ends it.
void end_with_engine(int descriptor, fan_out::RelayObserver& observer) {
    observer.on_look = [descriptor, look = std::move(observer.on_look)] {
        look();
        pollfd ended{descriptor, POLLIN, 0};
        if (::poll(&ended, 1, 0) != 0) stop_flag().store(true, std::memory_order_relaxed);
    };
}

int run_relay(RelayOptions options, const CLI::App& app) {
    stop_on(SIGTERM);
    stop_on(SIGINT);
    // A client of the metrics port may be gone before the answer.
    ::signal(SIGPIPE, SIG_IGN);
    event_log::configure(options.log);
    check_environment(app);
    if (!options.key_file.empty()) read_keys(options.key_file, options.group.keys);
    const bool nccl = options.group.transport == Transport::nccl;
    fan_out::RelayObserver observer = service_observer(nccl ? kLongestNcclJoin : 2 * kJoin);
    if (options.engine >= 0 && ::fcntl(options.engine, F_GETFD) < 0) {
        throw std::runtime_error(
            "--engine-fd is " + std::to_string(options.engine) +
            ", which is no open descriptor; a pidfd that the relay inherits would be right");
    }
    if (options.engine >= 0) end_with_engine(options.engine, observer);
    fan_out::Relay relay(options.group, options.daemon, std::move(observer));
    std::optional<RelayMetrics> metrics;
    if (!options.metrics.empty()) metrics.emplace(options.metrics, relay);
    options.engine >= 0 ? relay.run_once(stop_flag()) : relay.run(stop_flag());
    tell_service_manager_of_the_end();
    return 0;
}

}  // namespace

void add_relay_command(CLI::App& app, int& status) {
    auto options = std::make_shared<RelayOptions>();
    options->group.member = 1;
    options->group.join_timeout = kJoin;
    auto* relay =
        app.add_subcommand("relay", "Connect a scheduler on another host to its session on this one");
    relay->footer(
        "Run it beside the daemon of the last pipeline stage (docs/several-hosts.md). It waits for a\n"
        "scheduler, writes its records into the session's ring, returns the decisions, and waits for the\n"
        "next scheduler when this one leaves or dies.\n"
        "Options may also be set in the environment, for example --root as CROUPIER_RELAY_ROOT. The unit\n"
        "croupier-relay@NAME.service reads them from /etc/croupier/relay-NAME.env.\n"
        "Examples:\n"
        "  croupier relay --root tcp://10.0.0.1:7001 --root-key 'KEY' \\\n"
        "      --key-file /etc/croupier/relay.secret\n"
        "  croupier relay --root ipc:///run/engine/records.sock \\\n"
        "      --metrics 127.0.0.1:9465 --log-format json");
    relay
        ->add_option(
            "--root", options->group.endpoint,
            "Where the scheduler listens: tcp://<host>:<port>, an IPv6 address in [ ], or ipc://<path> on "
            "this host")
        ->required();
    relay->add_option("--key-file", options->key_file, "For tcp: a file with this member's secret CURVE key");
    relay->add_option("--root-key", options->group.keys.peer_public,
                      "For tcp: the scheduler's public CURVE key");
    relay
        ->add_option("--members", options->group.members,
                     "Number of members in the group, including the scheduler")
        ->capture_default_str();
    relay->add_option("--member", options->group.member, "Number of this member; 0 is the scheduler")
        ->capture_default_str();
    command_line::add_choice(*relay, "--records-over", options->group.transport,
                             {{"zmq", Transport::zmq}, {"nccl", Transport::nccl}},
                             "What carries the records");
    relay->add_option("--device", options->group.device, "With nccl: this member's GPU")
        ->capture_default_str();
    relay
        ->add_option("--endpoint", options->daemon,
                     "Control socket of the daemon on this host (its key `control.endpoint`)")
        ->capture_default_str();
    relay->add_option("--engine-fd", options->engine,
                      "Serve one scheduler, and end with it or with the process of this pidfd, which started "
                      "the relay");
    relay->add_option("--metrics", options->metrics, "Serve Prometheus metrics at HOST:PORT");
    event_log::add_options(*relay, options->log);
    name_variables(*relay);
    relay->callback([options, relay, &status] {
        try {
            status = run_relay(*options, *relay);
        } catch (const std::exception& failure) {
            event_log::write(Event::relay_failed, {{"root", options->group.endpoint}}, "relay: {}",
                             failure.what());
            status = 1;
        }
    });
}

}  // namespace croupier::tools
