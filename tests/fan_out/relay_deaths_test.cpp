// A relay, a scheduler or the daemon dies while a session goes through the relay: no token is lost, and none
// comes twice.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/fan_out/last_stage.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

TEST_CASE("a relay that is killed loses no token and gives none twice") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 6);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    constexpr std::size_t kTokens = 24;
    for (std::size_t tokens = 4; tokens <= 20; tokens += 4) {
        scheduler.serve(tokens);
        // With a step in flight, and with one that was decided and not taken, as it happens.
        scheduler.submit(0);
        if (tokens % 8 == 0) scheduler.take();
        stage.kill_relay();
        CHECK_THAT(failure_of_going_on(scheduler), Contains("peer_gone") && Contains("member 1"));
        CHECK_THAT(failure_of([&] { scheduler.session().add(SmallEngine::sequence(99, 1000)); }),
                   Contains("peer_gone"));
        scheduler.leave();
        stage.start_relay();
        scheduler.open();
        CHECK(scheduler.session().resumed());
    }
    scheduler.serve(kTokens);
    Tokens tokens = scheduler.tokens();
    for (auto& [uid, stream] : tokens) stream.resize(kTokens);
    CHECK(tokens == served_locally(6, kTokens));
    scheduler.close();
}

TEST_CASE("a scheduler that is killed is followed by another, which has every token once") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    const Sandbox files;
    const std::string output = files.directory() + "/scheduler";
    auto process = start_scheduler_process(stage.route(), output);
    const auto said = [&] { return text_of(output).value_or(""); };
    const auto says = [&](const std::string& text) {
        return eventually([&] { return said().find(text) != std::string::npos; });
    };
    REQUIRE(says("segment "));
    std::string segment;
    std::istringstream(said().substr(said().find("segment ") + 8)) >> segment;
    stage.start_writer(segment);
    REQUIRE(says("\n1 12 "));
    process.send(SIGKILL);
    process.wait();

    Tokens delivered;
    std::istringstream lines(said().substr(said().find("segment ")));
    std::string line;
    std::getline(lines, line);
    for (std::uint64_t uid = 0, position = 0, token = 0; lines >> uid >> position >> token;) {
        REQUIRE(delivered[uid].size() == position);
        delivered[uid].push_back(static_cast<std::int32_t>(token));
    }
    RemoteScheduler scheduler(stage.route(), kProcessSequences);
    scheduler.remember(delivered);
    scheduler.open();
    CHECK(scheduler.session().resumed());
    constexpr std::size_t kTokens = 40;
    scheduler.serve(kTokens);
    Tokens tokens = scheduler.tokens();
    for (auto& [uid, stream] : tokens) stream.resize(std::min(stream.size(), kTokens));
    CHECK(tokens == served_locally(kProcessSequences, kTokens));
    scheduler.close();
}

TEST_CASE("a daemon that restarts goes on with the session that a relay holds") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 6);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(5);
    stage.daemon().kill_now();
    // The relay accepts the step, and the next daemon decides it.
    scheduler.submit(1);
    CHECK_THAT(failure_of_waiting(scheduler),
               Contains("daemon_gone") && Contains("croupierd is started again"));
    stage.daemon().start();
    REQUIRE(stage.daemon().await_ready());
    scheduler.take();
    scheduler.serve(10);
    CHECK(scheduler.tokens() == served_locally(6, 10));
    scheduler.close();
}

TEST_CASE("a session whose daemon is dead is closed without the patience of an opening") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 2);
    scheduler.open();
    scheduler.submit(0);
    stage.daemon().kill_now();
    CHECK_THAT(failure_of_waiting(scheduler), Contains("daemon_gone"));
    // The connection's end may be seen before the request is sent, or after it.
    CHECK_THAT(failure_of([&] { scheduler.session().close(); }),
               (Contains("timed_out") && Contains("did not answer within 2000 ms")) ||
                   (Contains("refused") && Contains("if the daemon was stopped")));
}
