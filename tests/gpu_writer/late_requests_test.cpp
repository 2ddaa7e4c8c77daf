// How long a writer answers block requests for a step that no daemon decides.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "gpu_writer/lean_host.h"
#include "shm/logits_publisher.h"
#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using testing::kLeanColumns;
using testing::need;
using testing::soon;

namespace {

constexpr std::chrono::milliseconds kAnsweredAtMost{200};
constexpr std::chrono::milliseconds kLonger = 2 * kAnsweredAtMost;
// For what must be asked within it.
constexpr std::chrono::milliseconds kAnsweredSlowly{2000};

// One writer of rank 0, with its watcher made by the test.
struct Session {
    Session()
        : files(testing::lean_geometry()),
          client(need(shm::SchedulePublisher::attach(files.segment))),
          publisher(need(shm::LogitsPublisher::attach(files.segment, 0))) {
        testing::publish_step(client, kLeanColumns);
        step.ticket = 1;
        step.columns = kLeanColumns;
        step.word = need(publisher.begin(0));
    }
    void send() { REQUIRE(need(publisher.publish_all(0))); }
    void ask(std::uint64_t block) const {
        std::vector<std::uint64_t> bits(requests().bits(1).size());
        bits[0] = std::uint64_t{1} << block;
        requests().ask(1, bits);
    }
    bool answered() const { return requests().unanswered(1, 0) == 0; }
    void answer(const gpu_writer::BlockRequest& request) const {
        requests().answer(request.column, 0).store(request.word, std::memory_order_release);
    }
    shm::BlockRequests requests() const { return {files.segment, 0, shm::writer_epochs(files.segment)}; }

    testing::SessionFiles files;
    shm::SchedulePublisher client;
    shm::LogitsPublisher publisher;
    gpu_writer::BegunStep step;
};

}  // namespace

TEST_CASE("a host's writer answers the block requests of each daemon, however long none was there",
          "[lean]") {
    Session session;
    gpu_writer::LeanHost host(session.files.segment, 0, kAnsweredAtMost);
    const testing::Rows rows =
        testing::random_rows(testing::lean_geometry(), 0, kLeanColumns, testing::lean_geometry().vocab, 1);
    const std::size_t row_bytes = rows.bytes.size() / kLeanColumns;
    std::vector<const void*> pointers;
    for (std::uint32_t column = 0; column < kLeanColumns; ++column)
        pointers.push_back(rows.bytes.data() + column * row_bytes);
    host.lay(session.step, pointers);
    session.send();
    for (std::uint64_t daemon = 0; daemon < 3; ++daemon) {
        std::this_thread::sleep_for(kLonger);
        session.ask(daemon);
        REQUIRE(soon([&] { return session.answered(); }));
    }
}

TEST_CASE("the time until a step is sent is not part of the time for which it is answered", "[lean]") {
    Session session;
    gpu_writer::StepWatcher watcher(
        session.files.segment, 0,
        {.answer =
             [&](const gpu_writer::WatchedStep&, const gpu_writer::BlockRequest& request) {
                 session.answer(request);
                 return true;
             }},
        kAnsweredSlowly);
    watcher.watch(session.step);
    std::this_thread::sleep_for(kAnsweredSlowly + kAnsweredAtMost);
    session.send();
    session.ask(0);
    REQUIRE(soon([&] { return session.answered(); }));
}

TEST_CASE("a sent step whose rows do not stay is answered for a limited time", "[lean]") {
    Session session;
    std::atomic<bool> stays = true;
    std::atomic<bool> ended = false;
    gpu_writer::StepWatcher::Calls calls;
    calls.answer = [](const gpu_writer::WatchedStep&, const gpu_writer::BlockRequest&) { return true; };
    calls.stays = [&](const gpu_writer::WatchedStep&) { return stays.load(); };
    calls.end = [&](const gpu_writer::WatchedStep&) { ended = true; };
    gpu_writer::StepWatcher watcher(session.files.segment, 0, calls, kAnsweredAtMost);
    watcher.watch(session.step);
    session.send();
    std::this_thread::sleep_for(kLonger);
    CHECK_FALSE(ended);
    stays = false;
    CHECK(soon([&] { return ended.load(); }));
}
