#include "tests/fan_out/fan_out_peer.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace croupier::testing {
namespace {

using fan_out::FanOutOptions;
using fan_out::Record;
using fan_out::Transport;
using std::chrono::milliseconds;

constexpr const char* kVariable = "CROUPIER_TEST_FAN_OUT_PEER";
constexpr milliseconds kPatience{60000};

struct KeyPair {
    std::array<char, 41> open{};
    std::array<char, 41> secret{};

    KeyPair() { zmq_curve_keypair(open.data(), secret.data()); }
};

const KeyPair& root_pair() {
    static const KeyPair pair;
    return pair;
}

const KeyPair& member_pair() {
    static const KeyPair pair;
    return pair;
}

std::string or_dash(const std::string& text) {
    return text.empty() ? "-" : text;
}

std::string not_dash(const std::string& text) {
    return text == "-" ? "" : text;
}

// Z85 has no spaces, and neither has an endpoint.
std::string written(const FanOutOptions& options, PeerTask task) {
    std::ostringstream text;
    text << static_cast<int>(task) << ' ' << static_cast<std::uint32_t>(options.transport) << ' '
         << options.endpoint << ' ' << or_dash(options.keys.own_public) << ' '
         << or_dash(options.keys.own_secret) << ' ' << or_dash(options.keys.peer_public) << ' '
         << options.members << ' ' << options.member << ' ' << options.device << ' ' << options.window << ' '
         << options.join_timeout.count();
    return text.str();
}

FanOutOptions read_options(const std::string& from, PeerTask& task) {
    std::istringstream text(from);
    FanOutOptions options;
    int number = 0;
    std::uint32_t transport = 0;
    std::int64_t join_timeout = 0;
    text >> number >> transport >> options.endpoint >> options.keys.own_public >> options.keys.own_secret >>
        options.keys.peer_public >> options.members >> options.member >> options.device >> options.window >>
        join_timeout;
    if (!text) throw std::runtime_error("not a peer's options: " + from);
    for (auto* key : {&options.keys.own_public, &options.keys.own_secret, &options.keys.peer_public}) {
        *key = not_dash(*key);
    }
    task = static_cast<PeerTask>(number);
    options.transport = static_cast<Transport>(transport);
    options.join_timeout = milliseconds(join_timeout);
    return options;
}

template <typename T>
T need(shm::Result<T> result) {
    if (!result) {
        throw std::runtime_error(std::string(shm::errc_name(result.error().code)) + ": " +
                                 result.error().message);
    }
    return std::move(result).value();
}

void await_end_of_input() {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

bool says_end(std::span<const std::uint8_t> record) {
    return record.size() >= 3 && std::memcmp(record.data(), "end", 3) == 0;
}

void echo(fan_out::FanOut& group) {
    while (true) {
        const auto record = need(group.receive(kPatience));
        if (!record) throw std::runtime_error("no record came");
        if (says_end(*record)) return;
        if (!need(group.answer(*record))) throw std::runtime_error("the root does not read answers");
    }
}

void count(fan_out::FanOut& group) {
    std::uint64_t seen = 0;
    while (true) {
        const auto record = need(group.receive(kPatience));
        if (!record) throw std::runtime_error("no record came");
        if (says_end(*record)) break;
        std::uint64_t number = 0;
        std::memcpy(&number, record->data(), sizeof(number));
        if (number != ++seen) {
            throw std::runtime_error("record " + std::to_string(number) + " came where " +
                                     std::to_string(seen) + " was due");
        }
    }
    std::array<std::uint8_t, sizeof(seen)> bytes{};
    std::memcpy(bytes.data(), &seen, sizeof(seen));
    if (!need(group.answer(bytes))) throw std::runtime_error("the root does not read answers");
}

void run_peer(const std::string& from) {
    PeerTask task{};
    const FanOutOptions options = read_options(from, task);
    const auto group = need(fan_out::open_fan_out(options));
    switch (task) {
        case PeerTask::late_echo:
            await_end_of_input();
            return echo(*group);
        case PeerTask::echo:
            return echo(*group);
        case PeerTask::count:
            return count(*group);
        case PeerTask::root:
            need(group->send(Record{1, 2, 3}));
            return await_end_of_input();
    }
}

}  // namespace

// Hidden: executed by the other tests, with its part in the environment.
TEST_CASE("a member of a fan-out", "[.][peer]") {
    const char* from = std::getenv(kVariable);
    REQUIRE(from != nullptr);
    try {
        run_peer(from);
    } catch (const std::exception& failure) {
        // Not through Catch, which breaks a text into lines.
        std::cerr << failure.what() << std::endl;
        ::_exit(3);
    }
}

Peer::Peer(const FanOutOptions& options, PeerTask task) {
    const std::string variable = std::string(kVariable) + "=" + written(options, task);
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
        throw std::runtime_error("no pipes can be had");
    }
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    environment.push_back(const_cast<char*>(variable.c_str()));
    environment.push_back(nullptr);
    const pid_t test = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != test) ::_exit(126);
        ::dup2(input[0], STDIN_FILENO);
        ::dup2(output[1], STDOUT_FILENO);
        ::dup2(output[1], STDERR_FILENO);
        ::execle("/proc/self/exe", "peer", "[peer]", nullptr, environment.data());
        ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
}

Peer::~Peer() {
    kill();
    (void)wait();
    ::close(output_);
}

void Peer::end_input() {
    if (input_ >= 0) ::close(input_);
    input_ = -1;
}

void Peer::pause() {
    ::kill(pid_, SIGSTOP);
}

void Peer::kill() {
    if (pid_ != 0) ::kill(pid_, SIGKILL);
}

bool Peer::has_ended() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == pid_;
}

int Peer::wait() {
    end_input();
    if (pid_ == 0) return 0;
    std::array<char, 4096> bytes{};
    for (ssize_t got = 0; (got = ::read(output_, bytes.data(), bytes.size())) > 0;) {
        said_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

fan_out::FanOutKeys keys_of_root() {
    return {root_pair().open.data(), root_pair().secret.data(), member_pair().open.data()};
}

fan_out::FanOutKeys keys_of_member() {
    return {member_pair().open.data(), member_pair().secret.data(), root_pair().open.data()};
}

}  // namespace croupier::testing
