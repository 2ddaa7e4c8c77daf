// More records at once than may be in flight: a call waits for its relay, and nothing is refused.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/fan_out/last_stage.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint64_t kFirst = 1000;

// Two records each. The session has room for few at once.
void come_and_go(RemoteScheduler& scheduler, std::uint64_t count) {
    for (std::uint64_t uid = kFirst; uid < kFirst + count; ++uid) {
        scheduler.session().add(SmallEngine::sequence(uid, RemoteScheduler::kVocab));
        scheduler.session().finish(uid);
    }
}

}  // namespace

TEST_CASE("hundreds of sequences come and go between two steps through a relay") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    hosts.on_engine_host([&] {
        RemoteScheduler scheduler(stage.route(), 4);
        scheduler.open();
        stage.start_writer(scheduler.session().segment_path());
        scheduler.serve(5);
        Tokens before = scheduler.tokens();
        come_and_go(scheduler, 1000);
        // With steps in flight, whose decisions are kept while a call waits.
        scheduler.submit(0);
        scheduler.submit(1);
        come_and_go(scheduler, 1000);
        scheduler.take();
        scheduler.take();
        CHECK(scheduler.tokens().size() == 4);
        for (const auto& [uid, tokens] : scheduler.tokens()) CHECK(tokens.size() == before[uid].size() + 1);
        scheduler.close();
    });
}

TEST_CASE("a relay that reads nothing for two seconds loses no record and ends no call") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 4);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(2);
    stage.pause_relay();
    const std::jthread link([&] {
        std::this_thread::sleep_for(std::chrono::seconds(2));
        stage.resume_relay();
    });
    come_and_go(scheduler, 200);
    scheduler.serve(4);
    for (const auto& [uid, tokens] : scheduler.tokens()) CHECK(tokens.size() == 4);
    scheduler.close();
}
