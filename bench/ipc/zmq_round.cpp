#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <zmq.hpp>

#include "bench/ipc/rounds.h"
#include "shm/clock.h"

namespace croupier::bench {
namespace {

using Message = std::array<std::byte, 64>;

[[noreturn]] void echo(const std::string& endpoint, std::uint32_t rounds, int core) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to_core(core);
    {
        zmq::context_t context;
        zmq::socket_t socket(context, zmq::socket_type::rep);
        socket.bind(endpoint);
        for (std::uint32_t round = 0; round < rounds; ++round) {
            zmq::message_t message;
            if (!socket.recv(message)) break;
            socket.send(message, zmq::send_flags::none);
        }
    }
    ::_exit(0);
}

}  // namespace

std::vector<std::uint64_t> time_zmq(const RoundOptions& options) {
    std::string directory = (std::filesystem::temp_directory_path() / "croupier-bench-XXXXXX").string();
    if (::mkdtemp(directory.data()) == nullptr) throw std::runtime_error("cannot create " + directory);
    const std::string endpoint = "ipc://" + directory + "/echo.sock";
    const std::uint32_t rounds = options.warm_up + options.rounds;
    const pid_t peer = ::fork();
    if (peer == 0) echo(endpoint, rounds, options.peer_core);
    bind_to_core(options.own_core);
    std::vector<std::uint64_t> times;
    times.reserve(options.rounds);
    {
        zmq::context_t context;
        zmq::socket_t socket(context, zmq::socket_type::req);
        socket.connect(endpoint);
        const Message message{};
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint64_t begin = shm::monotonic_ns();
            socket.send(zmq::buffer(message), zmq::send_flags::none);
            zmq::message_t answer;
            if (!socket.recv(answer) || answer.size() != message.size())
                throw std::runtime_error("no answer over ZMQ");
            const std::uint64_t end = shm::monotonic_ns();
            if (round >= options.warm_up) times.push_back(end - begin);
        }
    }
    ::waitpid(peer, nullptr, 0);
    std::filesystem::remove_all(directory);
    return times;
}

}  // namespace croupier::bench
