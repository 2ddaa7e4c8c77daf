#include "bench/fan_out/trip.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "shm/clock.h"
#include "shm/futex.h"
#include "testing/child_process.h"

namespace croupier::bench {
namespace {

using shm::monotonic_ns;
using testing::ChildProcess;

constexpr std::uint32_t kMostLeaves = 16;
constexpr std::uint32_t kMostPaced = 100'000;
constexpr std::chrono::seconds kPatience{60};

// State shared by the processes.
struct Board {
    std::atomic<std::uint32_t>
        arrived;  // records received by all leaves: paced ones, and the last of the burst
    std::array<char, 512> failure;
    std::atomic<bool> failed;
    std::uint64_t begin_ns;
    std::array<std::uint64_t, kMostLeaves> end_ns;
    std::uint64_t latency_ns[kMostLeaves][kMostPaced];
};

class SharedBoard {
  public:
    SharedBoard() {
        void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        board_ = static_cast<Board*>(memory);
    }
    SharedBoard(const SharedBoard&) = delete;
    SharedBoard& operator=(const SharedBoard&) = delete;
    ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
    Board& operator*() const { return *board_; }
    Board* operator->() const { return board_; }

  private:
    Board* board_;
};

class Folder {
  public:
    Folder() : path_((std::filesystem::temp_directory_path() / "croupier-fan-out-XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

void await_arrivals(Board& board, std::uint32_t due) {
    const std::uint64_t deadline =
        monotonic_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(kPatience).count());
    while (true) {
        const std::uint32_t seen = board.arrived.load();
        if (seen >= due) return;
        if (monotonic_ns() > deadline) throw std::runtime_error("records did not arrive");
        shm::futex_wait(board.arrived, seen, std::chrono::milliseconds(100));
    }
}

void run_root(Way way, const Meeting& meeting, const TripOptions& options, Board& board) {
    const auto end = open_root(way, meeting);
    std::vector<std::uint8_t> record(options.record_bytes);
    const auto stamp = [&] {
        const std::uint64_t now = monotonic_ns();
        std::memcpy(record.data(), &now, sizeof(now));
    };
    for (std::uint32_t i = 0; i < options.paced; ++i) {
        stamp();
        end->send(record);
        await_arrivals(board, (i + 1) * options.leaves);
    }
    board.begin_ns = monotonic_ns();
    for (std::uint32_t i = 0; i < options.burst; ++i) end->send(record);
    await_arrivals(board, (options.paced + 1) * options.leaves);
}

void run_leaf(Way way, const Meeting& meeting, std::uint32_t leaf, const TripOptions& options, Board& board) {
    const auto end = open_leaf(way, meeting, leaf);
    const auto arrive = [&board] {
        board.arrived.fetch_add(1);
        shm::futex_wake_all(board.arrived);
    };
    for (std::uint32_t i = 0; i < options.paced; ++i) {
        const auto record = end->receive();
        const std::uint64_t now = monotonic_ns();
        std::uint64_t sent = 0;
        std::memcpy(&sent, record.data(), sizeof(sent));
        board.latency_ns[leaf][i] = now - sent;
        arrive();
    }
    for (std::uint32_t i = 0; i < options.burst; ++i) {
        if (end->receive().size() != options.record_bytes)
            throw std::runtime_error("a record has the wrong size");
    }
    board.end_ns.at(leaf) = monotonic_ns();
    arrive();
}

void keep_failure(Board& board, const std::string& why) {
    if (!board.failed.exchange(true)) why.copy(board.failure.data(), board.failure.size() - 1);
}

Meeting meeting_for(const TripOptions& options, const std::string& folder) {
    Meeting meeting;
    meeting.leaves = options.leaves;
    meeting.endpoint = options.port != 0 ? "tcp://127.0.0.1:" + std::to_string(options.port)
                                         : "ipc://" + folder + "/records.sock";
    for (auto [open, secret] : {std::pair(&meeting.root_public, &meeting.root_secret),
                                std::pair(&meeting.leaf_public, &meeting.leaf_secret)}) {
        std::array<char, 41> open_key{};
        std::array<char, 41> secret_key{};
        zmq_curve_keypair(open_key.data(), secret_key.data());
        *open = open_key.data();
        *secret = secret_key.data();
    }
    return meeting;
}

// If a process fails, kills the others, which would wait for it.
void await_all(std::vector<ChildProcess>& parts, const Board& board) {
    while (!parts.empty()) {
        std::erase_if(parts, [](ChildProcess& part) { return part.poll().has_value(); });
        if (board.failed.load()) {
            for (auto& part : parts) part.kill_and_reap();
            throw std::runtime_error(board.failure.data());
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

Trip make_trip(Way way, const TripOptions& options) {
    if (options.leaves == 0 || options.leaves > kMostLeaves)
        throw std::runtime_error("--leaves should be 1 to 16");
    if (options.paced > kMostPaced) throw std::runtime_error("--paced should be at most 100000");
    if (options.record_bytes < sizeof(std::uint64_t))
        throw std::runtime_error("--bytes should be at least 8, the size of a time stamp");
    const Folder folder;
    const SharedBoard board;
    const Meeting meeting = meeting_for(options, folder.path());
    const auto failed = [&board](const std::string& why) { keep_failure(*board, why); };
    std::vector<ChildProcess> parts;
    // The parent uses neither ZMQ nor CUDA, which do not survive a fork.
    parts.push_back(ChildProcess::run([&] { run_root(way, meeting, options, *board); }, failed));
    for (std::uint32_t leaf = 0; leaf < options.leaves; ++leaf) {
        parts.push_back(ChildProcess::run([&] { run_leaf(way, meeting, leaf, options, *board); }, failed));
    }
    await_all(parts, *board);
    Trip trip;
    std::uint64_t last = board->begin_ns;
    for (std::uint32_t leaf = 0; leaf < options.leaves; ++leaf) {
        const std::uint64_t* times = board->latency_ns[leaf];
        trip.latency_ns.insert(trip.latency_ns.end(), times, times + options.paced);
        last = std::max(last, board->end_ns.at(leaf));
    }
    trip.records_a_second = options.burst / (static_cast<double>(last - board->begin_ns) * 1e-9);
    return trip;
}

}  // namespace croupier::bench
