// Who may have a session, of what size, under which name; and what becomes of one that is taken over.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "shm/clock.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::SessionCounter;

namespace {

std::string open_failure(const DaemonProcess& daemon, const std::string& name, const EngineShape& shape) {
    return failure_of([&] { SmallEngine(daemon.endpoint(), name, shape); });
}

// An Open as a client that does not check its own options would send it.
std::string raw_refusal(const DaemonProcess& daemon, const std::vector<std::uint32_t>& order) {
    flatbuffers::FlatBufferBuilder builder;
    const auto name = builder.CreateString("raw");
    const auto blocks = builder.CreateVector(order);
    wire::OpenBuilder open(builder);
    open.add_name(name);
    open.add_vocab(100 * 64 - 5);
    open.add_tp(1);
    open.add_max_batch(1);
    open.add_slots(1);
    open.add_tile(64);
    open.add_max_sequences(1);
    open.add_max_length(16);
    open.add_max_bias(1);
    open.add_max_stop_ids(1);
    open.add_order(blocks);
    wire::finish(builder, 1, open.Finish());
    ControlPeer peer(daemon.endpoint());
    peer.send(builder);
    return peer.refusal();
}

// Of a process's own: segments are shared and do not count.
std::uint64_t anonymous_bytes(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("Anonymous:")) return std::stoull(line.substr(10)) * 1024;
    }
    return 0;
}

}  // namespace

TEST_CASE("by default a vocabulary larger than any model's is refused, because its columns hold up others") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.vocab = 320001;
    CHECK_THAT(open_failure(daemon, "large", shape), Contains("sessions.max_vocab") && Contains("320000"));
    shape.vocab = 320000;
    CHECK(open_failure(daemon, "largest", shape).empty());
}

TEST_CASE("samplers find a session in a directory of the longest path that a configuration may have") {
    const Sandbox sandbox;
    std::string directory = sandbox.shm_directory() + "-";
    directory.resize(172, 'd');
    sandbox.write_config(kTwoSamplers,
                         "instance: " + std::string(32, 'i') + "\nshm: {dir: " + directory + "}");
    const std::string log = sandbox.directory() + "/log";
    auto daemon = ChildProcess::execute({CROUPIERD_PATH, "--config", sandbox.config_path()}, log, SIGKILL);
    REQUIRE(eventually([&] { return text_of(log).value_or("").find("ready: ") != std::string::npos; }));
    {
        SmallEngine engine(sandbox.endpoint(), "engine");
        engine.admit(4);
        engine.steps(2);
    }
    daemon.send(SIGTERM);
    CHECK(daemon.wait() == 0);
    std::filesystem::remove_all(directory);
}

TEST_CASE("every quota refuses what is beyond it, naming its key, and lets its limit pass") {
    const DaemonProcess daemon(kTwoSamplers,
                               "sessions: {max: 2, max_batch: 8, max_vocab: 1000, max_sequences: 16, "
                               "max_sequence_tokens: 256, max_support: 8, max_list_tokens: 2048, "
                               "max_segment_bytes: 1MiB, max_total_bytes: 3MiB}");
    EngineShape most;  // exactly at each of the limits on counts
    most.max_support = 8;
    SmallEngine engine(daemon.endpoint(), "engine", most);
    const auto beyond = [&](auto EngineShape::*field) {
        EngineShape shape = most;
        shape.*field += 1;
        return open_failure(daemon, "beyond", shape);
    };
    CHECK_THAT(beyond(&EngineShape::batch), Contains("sessions.max_batch"));
    CHECK_THAT(beyond(&EngineShape::vocab), Contains("sessions.max_vocab"));
    CHECK_THAT(beyond(&EngineShape::max_sequences), Contains("sessions.max_sequences"));
    CHECK_THAT(beyond(&EngineShape::max_length), Contains("sessions.max_sequence_tokens"));
    CHECK_THAT(beyond(&EngineShape::max_support), Contains("sessions.max_support"));
    client::OpenOptions lists;
    lists.dtype = CROUPIER_BF16;
    const std::string endpoint = daemon.endpoint();
    lists.endpoint = endpoint.c_str();
    lists.name = "beyond";
    lists.vocab = 1000;
    lists.max_batch = lists.max_sequences = 8;
    lists.max_length = 256;
    lists.max_list_tokens = 2049;
    CHECK_THAT(failure_of([&] { client::Session{lists}; }), Contains("sessions.max_list_tokens"));
    EngineShape large;
    large.steps_in_flight = 64;
    large.tp = 1;
    CHECK_THAT(open_failure(daemon, "large", large), Contains("sessions.max_segment_bytes"));
    CHECK(daemon.files_in_shm() == 3);
    engine.admit(8);
    engine.steps(2);
}

TEST_CASE("sessions.max and sessions.max_total_bytes count what is open, and a close gives room") {
    const DaemonProcess daemon(kTwoSamplers,
                               "sessions: {max: 2, max_segment_bytes: 2MiB, max_total_bytes: 2MiB}");
    EngineShape large;
    large.steps_in_flight = 64;
    SmallEngine first(daemon.endpoint(), "first", large);
    CHECK_THAT(open_failure(daemon, "second", large), Contains("sessions.max_total_bytes"));
    SmallEngine second(daemon.endpoint(), "second");
    CHECK_THAT(open_failure(daemon, "third", {}), Contains("sessions.max in its configuration"));
    const std::string path = first.segment_path();
    first.session().close();
    CHECK_FALSE(std::filesystem::exists(path));
    SmallEngine third(daemon.endpoint(), "third", large);
    third.admit(8);
    third.steps(2);
}

TEST_CASE("the memory of a closed session is given back, by the samplers too") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.vocab = 100000;
    shape.steps_in_flight = 4;
    std::string path;
    {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(2);
        engine.step();
        path = engine.segment_path();
        engine.session().close();
    }
    const auto maps_it = [&](pid_t pid) {
        const std::string maps = text_of("/proc/" + std::to_string(pid) + "/maps").value_or("");
        return maps.find(path) != std::string::npos;
    };
    CHECK(eventually([&] {
        return !maps_it(daemon.pid()) && !maps_it(daemon.sampler_pid(0)) && !maps_it(daemon.sampler_pid(1));
    }));
}

TEST_CASE("a sampler frees its memory for a vocabulary with the last session that has it") {
    constexpr std::uint64_t kMiB = 1 << 20;
    const DaemonProcess daemon("{count: 1}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(2);
    engine.steps(1);
    const pid_t sampler = daemon.sampler_pid(0);
    const std::uint64_t before = anonymous_bytes(sampler);
    EngineShape shape;
    shape.vocab = 300000;
    SmallEngine large(daemon.endpoint(), "large", shape);
    SmallEngine beside(daemon.endpoint(), "beside", shape);
    REQUIRE(eventually([&] { return anonymous_bytes(sampler) > before + 30 * kMiB; }));
    large.session().close();
    beside.admit(1);
    beside.steps(1);
    CHECK(anonymous_bytes(sampler) > before + 30 * kMiB);
    beside.session().close();
    CHECK(eventually([&] { return anonymous_bytes(sampler) < before + 10 * kMiB; }));
    engine.steps(1);
}

TEST_CASE("a name that a live client holds is refused with the client's pid") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    CHECK_THAT(open_failure(daemon, "engine", {}), Contains("already_held") &&
                                                       Contains("pid " + std::to_string(::getpid())) &&
                                                       Contains("takeover"));
    engine.admit(8);
    engine.step();
}

TEST_CASE("a takeover fences the old client: its calls are refused and counted, the new session works") {
    const DaemonProcess daemon;
    SmallEngine old(daemon.endpoint(), "engine");
    old.admit(8);
    const std::uint64_t step = old.submit();
    const auto segment = shm::Segment::attach(old.segment_path(), shm::Access::read_only);
    EngineShape shape;
    shape.takeover = true;
    SmallEngine taken(daemon.endpoint(), "engine", shape);
    CHECK_THAT(failure_of([&] { old.submit(); }), Contains("stale_epoch") && Contains("taken over"));
    CHECK_THAT(failure_of([&] { static_cast<void>(old.session().wait(1000)); }), Contains("stale_epoch"));
    CHECK_THROWS_WITH(old.write(step), Contains("fenced"));
    CHECK(segment.value().header().counter(SessionCounter::stale_epoch_refused).load() >= 3);
    taken.admit(8);
    taken.steps(3);
}

TEST_CASE("a takeover or a new beginning for which there is no room leaves the session that is there") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {max: 1, max_segment_bytes: 1MiB}");
    EngineShape large;
    large.steps_in_flight = 64;
    large.takeover = true;
    {
        SmallEngine engine(daemon.endpoint(), "engine");
        engine.admit(8);
        engine.step();
        CHECK_THAT(open_failure(daemon, "engine", large), Contains("sessions.max_segment_bytes"));
        engine.steps(2);
    }
    CHECK_THAT(open_failure(daemon, "engine", large), Contains("sessions.max_segment_bytes"));
    EngineShape same;
    same.resume = true;
    SmallEngine resumed(daemon.endpoint(), "engine", same);
    CHECK(resumed.session().resumed());
    resumed.steps(2);
    // What the old session has is room for the new one.
    EngineShape small;
    small.takeover = true;
    SmallEngine taken(daemon.endpoint(), "engine", small);
    taken.admit(8);
    taken.steps(2);
}

TEST_CASE("a paused client and its writer that wake after a takeover are refused") {
    struct Story {
        std::atomic<int> paused{0};
        std::atomic<int> client_refused{0};
        std::atomic<int> writer_refused{0};
    };
    const DaemonProcess daemon;
    const Shared<Story> story;
    auto sleeper = ChildProcess::start([&] {
        try {
            SmallEngine engine(daemon.endpoint(), "engine");
            engine.admit(8);
            const std::uint64_t step = engine.submit();
            story->paused = 1;
            ::raise(SIGSTOP);
            const std::string refused = failure_of([&] { engine.submit(); });
            story->client_refused = refused.find("stale_epoch") != std::string::npos ? 1 : 0;
            try {
                engine.write(step);
            } catch (const std::runtime_error& fenced) {
                story->writer_refused =
                    std::string(fenced.what()).find("fenced") != std::string::npos ? 1 : 0;
            }
            return 0;
        } catch (const std::exception&) {
            return 1;
        }
    });
    REQUIRE(sleeper.wait_until_stopped());
    REQUIRE(story->paused == 1);
    EngineShape shape;
    shape.takeover = true;
    SmallEngine taken(daemon.endpoint(), "engine", shape);
    taken.admit(8);
    taken.step();
    taken.submit();
    sleeper.send(SIGCONT);
    CHECK(sleeper.wait() == 0);
    CHECK(story->client_refused == 1);
    CHECK(story->writer_refused == 1);
    taken.write();
    taken.collect();
    taken.steps(2);
}

TEST_CASE("sessions of different shapes are served side by side") {
    const DaemonProcess daemon;
    std::vector<EngineShape> shapes(4);
    shapes[1].vocab = 32000;
    shapes[1].tp = 3;
    shapes[1].batch = 3;
    shapes[2].vocab = 77;
    shapes[2].tp = 1;
    shapes[2].tile = 1;
    shapes[2].batch = 5;
    shapes[3].vocab = 5003;
    shapes[3].decisions_over_zmq = true;
    std::vector<std::unique_ptr<SmallEngine>> engines;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        engines.push_back(
            std::make_unique<SmallEngine>(daemon.endpoint(), "engine-" + std::to_string(i), shapes[i]));
        engines.back()->admit(shapes[i].batch);
    }
    for (int round = 0; round < 5; ++round) {
        for (auto& engine : engines) engine->submit();
        for (auto& engine : engines) engine->write();
        for (auto& engine : engines) engine->collect();
    }
}

TEST_CASE("an order that is no permutation of the vocabulary is refused, saying which entry") {
    const DaemonProcess daemon;
    std::vector<std::uint32_t> order(100);
    std::iota(order.begin(), order.end(), 0U);
    auto twice = order;
    twice[7] = 8;
    CHECK_THAT(raw_refusal(daemon, twice), Contains("entry 8 is 8, which came before"));
    auto outside = order;
    outside[3] = 100;
    CHECK_THAT(raw_refusal(daemon, outside), Contains("entry 3 is 100, its blocks are 0 to 99"));
    outside[3] = 0xFFFFFFFFU;
    CHECK_THAT(raw_refusal(daemon, outside), Contains("entry 3 is 4294967295, its blocks"));
    order.pop_back();
    CHECK_THAT(raw_refusal(daemon, order), Contains("has 99 blocks") && Contains("has 100 of 64 ids"));
    CHECK(daemon.files_in_shm() == 1);
}

TEST_CASE("a session is resumed in its own shape only, and stays resumable after a refusal") {
    const DaemonProcess daemon;
    {
        SmallEngine gone(daemon.endpoint(), "engine");
        gone.admit(3);
    }
    EngineShape other;
    other.resume = true;
    other.tile = 1;
    CHECK_THAT(open_failure(daemon, "engine", other),
               Contains("tile is 64 in the session and 1 in the options"));
    EngineShape same;
    same.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", same);
    CHECK(engine.session().resumed());
    CHECK(engine.streams().size() == 3);
    engine.steps(2);
}

TEST_CASE("a session is resumed with its own hotness order only, and stays resumable after a refusal") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.order.resize(proto::blocks_of(shape.vocab));
    std::iota(shape.order.rbegin(), shape.order.rend(), 0U);
    {
        SmallEngine gone(daemon.endpoint(), "engine", shape);
        gone.admit(3);
    }
    EngineShape other = shape;
    other.resume = true;
    std::swap(other.order[0], other.order[1]);
    CHECK_THAT(open_failure(daemon, "engine", other),
               Contains("the hotness order is another one") && Contains("without resume to begin anew"));
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    CHECK(engine.session().resumed());
    engine.steps(2);
}

TEST_CASE("a session that is opened while samplers attach to another one is served at once") {
    const DaemonProcess daemon;
    EngineShape large;
    large.vocab = 64000;  // to attach to it takes longer than to open the next one
    const auto ns_of = [](auto&& work) {
        const std::uint64_t begin = shm::monotonic_ns();
        work();
        return shm::monotonic_ns() - begin;
    };
    std::vector<std::uint64_t> first, second;
    for (int round = 0; round < 9; ++round) {
        const SmallEngine other(daemon.endpoint(), "large", large);
        SmallEngine engine(daemon.endpoint(), "engine");
        engine.admit(1);
        first.push_back(ns_of([&] { engine.step(); }));
        second.push_back(ns_of([&] { engine.step(); }));
    }
    const auto median = [](std::vector<std::uint64_t>& of) {
        std::nth_element(of.begin(), of.begin() + 4, of.end());
        return of[4];
    };
    // A sampler that missed the ring would sleep for 100 ms; on a busy host both steps take longer.
    CHECK(median(first) < 70'000'000 + 10 * median(second));
}
