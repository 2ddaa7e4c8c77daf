// A real second user of the host takes all that a daemon lets him have, of its connections and of its
// samplers' time, and goes on: the first one's engines open sessions and decide tokens meanwhile.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <list>
#include <string>
#include <vector>

#include "config/config.h"
#include "croupier/client.hpp"
#include "daemon/control/connection_limits.h"
#include "gpu_writer/rank_writer.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/idle_peer.h"
#include "tests/daemon/limited_croupierd.h"
#include "tests/daemon/open_house.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr rlim_t kFilesOfDaemon = 300;
constexpr rlim_t kFilesOfAttacker = 900;

// To the port, unless all descriptors are taken; whether it ever comes about is the daemon's to say.
int begin_connection(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in address = loopback(port);
    if (fd >= 0) (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    return fd;
}

// Takes connections to all that a daemon serves, as many as his own limit allows, and takes those anew that
// the daemon closes. Stops himself when he has reached that limit first.
class Flood {
  public:
    Flood(const DaemonProcess& daemon, std::uint16_t port) : directory_(daemon.directory()), port_(port) {
        const rlimit most{kFilesOfAttacker, kFilesOfAttacker};
        if (::setrlimit(RLIMIT_NOFILE, &most) != 0) std::abort();
    }

    [[noreturn]] void run() {
        fill();
        ::raise(SIGSTOP);
        while (true) {
            peers_.remove_if([](const IdlePeer& peer) { return !peer.is_open(); });
            for (const int browser : browsers_) ::close(browser);
            browsers_.clear();
            fill();
        }
    }

  private:
    void fill() {
        while (true) {
            const int browser = begin_connection(port_);
            if (browser < 0) return;
            browsers_.push_back(browser);
            for (int each = 0; each < 2; ++each) peers_.emplace_back(directory_ + "/control.sock");
        }
    }

    std::string directory_;
    std::uint16_t port_;
    std::list<IdlePeer> peers_;
    std::vector<int> browsers_;
};

std::size_t open_files(const DaemonProcess& daemon) {
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(daemon.pid()) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::string decides(const std::string& endpoint, const std::string& name) {
    return failure_of([&] {
        SmallEngine engine(endpoint, name);
        engine.admit(4);
        engine.steps(3);
    });
}

constexpr const char* kMostSupport = "sessions: {max_support: 65536}";
constexpr std::uint32_t kDearVocab = 320000;  // sessions.max_vocab, by default
constexpr std::uint32_t kDearColumns = 8;
constexpr std::uint32_t kDearSlots = 2;

client::OpenOptions dear_options(const std::string& endpoint, std::uint32_t vocab) {
    client::OpenOptions made;
    made.endpoint = endpoint.c_str();
    made.name = "dear";
    made.vocab = vocab;
    made.dtype = CROUPIER_FP32;
    made.max_support = config::Sessions().max_support;
    made.max_batch = kDearColumns;
    made.steps_in_flight = kDearSlots;
    made.max_sequences = kDearColumns * kDearSlots;
    made.max_length = 4096;
    return made;
}

// All of a row of fp32 is sorted, and nearly all is kept.
client::Sequence dear_sequence(std::uint64_t uid) {
    client::Sequence made;
    made.uid = uid;
    made.prompt = {1, 2, 3};
    made.params.seed = uid;
    made.params.typical_p = 0.999;
    made.params.dynatemp_range = 0.5;
    made.params.support = config::Sessions().max_support;
    return made;
}

std::vector<float> dear_row() {
    std::vector<float> row(kDearVocab);
    std::uint32_t state = 1;
    for (float& logit : row) {
        state = state * 1664525U + 1013904223U;
        logit = static_cast<float>(state >> 8U) / 1048576.0F - 8.0F;
    }
    return row;
}

// Keeps every slot of his session full, for as long as he lives.
[[noreturn]] void keep_samplers_busy(const std::string& endpoint) {
    client::Session session(dear_options(endpoint, kDearVocab));
    auto writer = gpu_writer::RankWriter::attach(session.segment_path(), 0).value();
    const std::vector<float> row = dear_row();
    const std::uint64_t sequences = std::uint64_t{kDearColumns} * kDearSlots;
    for (std::uint64_t uid = 1; uid <= sequences; ++uid) session.add(dear_sequence(uid));
    for (std::uint64_t slot = 0;; slot = (slot + 1) % kDearSlots) {
        if (session.in_flight() == kDearSlots) static_cast<void>(session.wait(60000));
        std::vector<croupier_column> asked;
        for (std::uint64_t i = 1; i <= kDearColumns; ++i)
            asked.push_back({slot * kDearColumns + i, nullptr, 1, 0});
        const std::uint64_t step = session.submit(asked);
        writer.write_all(step, std::vector<const void*>(kDearColumns, row.data()));
        if (!writer.publish_all(step)) std::abort();
    }
}

// The segment of the only session there.
shm::Segment only_segment(const DaemonProcess& daemon) {
    std::string path;
    REQUIRE(eventually([&] {
        for (const auto& file : std::filesystem::directory_iterator(daemon.shm_directory()))
            if (file.path().extension() == ".seg") path = file.path();
        return !path.empty();
    }));
    return shm::Segment::attach(path, shm::Access::read_only).value();
}

}  // namespace

TEST_CASE("a second user who takes connections to all sockets, without end, keeps no engine out") {
    if (!shm::can_change_user() || !shm::child_can_start_threads()) return;
    const LimitedCroupierd few_files("ulimit -n " + std::to_string(kFilesOfDaemon));
    const std::uint16_t port = free_port();
    DaemonProcess daemon(kTwoSamplers,
                         kForAllUsers + ("\nmetrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"}"),
                         few_files.path());
    let_all_users_in(daemon);
    SmallEngine before(daemon.endpoint(), "before");
    before.admit(4);
    auto second = shm::start_as_nobody([&] {
        Flood(daemon, port).run();
        return 0;
    });
    REQUIRE(second.wait_until_stopped());
    const std::size_t own_share =
        daemon::connection_limits(kFilesOfDaemon, config::Sessions().max, kFilesOfDaemon).each;
    REQUIRE(eventually([&] { return open_files(daemon) > own_share; }));
    second.send(SIGCONT);
    for (int round = 0; round < 5; ++round) {
        before.steps(2);
        REQUIRE(decides(daemon.endpoint(), "of-the-daemons-user").empty());
        REQUIRE(shm::start_as(shm::kThirdUser, [&] {
                    return decides(daemon.endpoint(), "of-a-third-user").empty() ? 0 : 1;
                }).wait() == 0);
    }
    CHECK_FALSE(second.poll());
    second.kill_and_reap();
    CHECK(daemon.says("event=connection_refused"));
    CHECK_FALSE(daemon.says("Too many open files"));
    CHECK(daemon.sampler_restarts() == 0);
    CHECK(http_get(port, "/metrics").find("croupier_") != std::string::npos);
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("a second user's dearest columns, without end, do not keep the first one's from being decided") {
    if (!shm::can_change_user()) return;
    DaemonProcess daemon("{count: 1}", kForAllUsers);
    let_all_users_in(daemon);
    auto second = shm::start_as_nobody([&] {
        keep_samplers_busy(daemon.endpoint());
        return 0;
    });
    const shm::Segment dear = only_segment(daemon);
    const auto& decided = dear.header().counter(proto::SessionCounter::columns_decided);
    REQUIRE(eventually([&] { return decided.load() > 0; }));
    SmallEngine first(daemon.endpoint(), "first");
    first.admit(4);
    int overtaken = 0;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t before = decided.load();
        first.step();
        overtaken += decided.load() < before + kDearColumns;
    }
    // Without turns it is never: a whole step of his comes first.
    CHECK(overtaken > 0);
    const std::uint64_t by_then = decided.load();
    CHECK(eventually([&] { return decided.load() > by_then; }));
    CHECK_FALSE(second.poll());
    CHECK_THAT(failure_of([&] { client::Session(dear_options(daemon.endpoint(), kDearVocab + 1)); }),
               Contains("refused") && Contains("sessions.max_vocab"));
    CHECK(daemon.sampler_restarts() == 0);
}

TEST_CASE(
    "a subscriber that does not read holds little of the daemon's memory, however often it subscribes") {
    const bool unsubscribes = GENERATE(false, true);
    const DaemonProcess daemon(kTwoSamplers, kMostSupport);
    EngineShape shape;
    shape.vocab = proto::kMaxSupport;
    shape.tp = 1;
    shape.max_support = proto::kMaxSupport;
    SmallEngine engine(daemon.endpoint(), "large-steps", shape);
    for (std::uint64_t uid = 1; uid <= shape.batch; ++uid) {
        client::Sequence sequence;
        sequence.uid = uid;
        sequence.prompt = {1};
        sequence.params.support = proto::kMaxSupport;
        engine.admit(sequence);
    }
    engine.submit();
    engine.write();
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    auto& header = segment.value().header();
    REQUIRE(engine.counted(shape.batch));
    ControlPeer subscriber(daemon.endpoint());
    // Its library buffers nothing either.
    subscriber.socket().disconnect(daemon.endpoint());
    subscriber.socket().set(zmq::sockopt::rcvhwm, 1);
    subscriber.socket().connect(daemon.endpoint());
    const auto configure = [&](bool on) {
        flatbuffers::FlatBufferBuilder builder;
        wire::finish(builder, 1, wire::CreateConfigure(builder, segment.value().id(), on));
        subscriber.send(builder);
    };
    constexpr int kSubscriptions = 40;  // 8 MiB each, if the daemon sent the step for every one
    for (int i = 0; i < kSubscriptions; ++i) {
        if (unsubscribes) configure(false);
        configure(true);
        daemon.await_housekeeping();  // what is due is sent once for all messages that have come
    }
    const auto& sent = header.counter(proto::SessionCounter::zmq_steps_sent);
    const auto& deferred = header.counter(proto::SessionCounter::zmq_send_deferred);
    std::uint64_t expected = 1;
    if (unsubscribes) {
        REQUIRE(eventually([&] { return deferred.load() > 0 || sent.load() == kSubscriptions; }));
        CHECK(sent.load() <= 16);
        // What was not sent comes when the subscriber reads.
        expected = sent.load() + 1;
    }
    int answers = 0;
    for (std::uint64_t steps = 0; steps < expected || (!unsubscribes && answers < kSubscriptions);) {
        const wire::Message* message = subscriber.receive();
        REQUIRE(message != nullptr);
        if (message->body_as_Configured() != nullptr) ++answers;
        if (message->body_as_StepDecisions() != nullptr) ++steps;
    }
    if (!unsubscribes) CHECK(sent.load() == 1);
    engine.collect();
    engine.step();
}
