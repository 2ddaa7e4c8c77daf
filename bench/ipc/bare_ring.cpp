#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bench/ipc/rounds.h"
#include "shm/clock.h"

namespace croupier::bench {
namespace {

struct alignas(64) Record {
    std::uint64_t words[8];
};

constexpr std::size_t kLargestPayload = std::size_t{1} << 20U;

struct Lane {
    alignas(64) std::atomic<std::uint64_t> sequence;
    Record records[kLargestPayload / sizeof(Record)];
};

struct TwoLanes {
    Lane there;
    Lane back;
};

using Payload = std::vector<Record>;

void receive(const Lane& lane, std::uint64_t sequence, Payload& payload) {
    while (lane.sequence.load(std::memory_order_acquire) != sequence) {
    }
    std::copy_n(lane.records, payload.size(), payload.begin());
}

void send(Lane& lane, std::uint64_t sequence, const Payload& payload) {
    std::copy(payload.begin(), payload.end(), lane.records);
    lane.sequence.store(sequence, std::memory_order_release);
}

[[noreturn]] void echo(TwoLanes& lanes, std::uint64_t rounds, std::size_t records, int core) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to_core(core);
    Payload question(records);
    Payload answer(1);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        receive(lanes.there, round, question);
        answer[0].words[0] = question.back().words[0] + 1;
        send(lanes.back, round, answer);
    }
    ::_exit(0);
}

}  // namespace

void bind_to_core(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core), &set);
    if (::sched_setaffinity(0, sizeof(set), &set) != 0) {
        throw std::system_error(errno, std::generic_category(),
                                "cannot bind to core " + std::to_string(core));
    }
}

std::vector<std::uint64_t> time_bare_ring(const RoundOptions& options, std::uint32_t bytes) {
    if (bytes > kLargestPayload) throw std::invalid_argument("a payload of the bare ring has at most 1 MiB");
    const std::size_t records = std::max<std::size_t>((bytes + sizeof(Record) - 1) / sizeof(Record), 1);
    void* memory =
        ::mmap(nullptr, sizeof(TwoLanes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    auto& lanes = *new (memory) TwoLanes{};
    const std::uint64_t rounds = std::uint64_t{options.warm_up} + options.rounds;
    const pid_t peer = ::fork();
    if (peer == 0) echo(lanes, rounds, records, options.peer_core);
    bind_to_core(options.own_core);
    std::vector<std::uint64_t> times;
    times.reserve(options.rounds);
    Payload question(records);
    Payload answer(1);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        question.back().words[0] = round;
        const std::uint64_t begin = shm::monotonic_ns();
        send(lanes.there, round, question);
        receive(lanes.back, round, answer);
        const std::uint64_t end = shm::monotonic_ns();
        if (answer[0].words[0] != round + 1)
            throw std::runtime_error("the bare ring returned a wrong answer");
        if (round > options.warm_up) times.push_back(end - begin);
    }
    ::waitpid(peer, nullptr, 0);
    ::munmap(memory, sizeof(TwoLanes));
    return times;
}

}  // namespace croupier::bench
