#include <catch2/catch.hpp>

#include "sim/orchestrator.h"
#include "tests/sim/small_engine.h"

namespace croupier::sim {
namespace {

SimOptions with_drafts(SimOptions options, std::uint32_t draft) {
    options.draft = draft;
    return options;
}

}  // namespace

TEST_CASE("tokens do not depend on what was drafted, whatever the transport") {
    SimOptions options = small_engine();
    options.tp = GENERATE(1U, 2U, 4U);
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    CHECK(run(with_drafts(options, 1)).streams_digest == streams);
    CHECK(run(with_drafts(options, 4)).streams_digest == streams);
    options.samplers = 3;
    CHECK(run(with_drafts(options, 15)).streams_digest == streams);
}

TEST_CASE("nor do they with windows in flight behind windows") {
    SimOptions options = small_engine();
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    options.ahead = 3;
    options.samplers = 2;
    options.decisions_over_zmq = true;
    CHECK(run(with_drafts(options, 5)).streams_digest == streams);
    options.truncates = 200;
    CHECK(run(with_drafts(options, 5)).streams_digest == streams);
}

TEST_CASE("nor do they if any process is killed at any moment") {
    SimOptions options = small_engine();
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    options.samplers = 2;
    options.chaos =
        GENERATE(ChaosTarget::samplers, ChaosTarget::daemon, ChaosTarget::writer, ChaosTarget::client);
    options.kills = 8;
    options.ahead = GENERATE(1U, 2U);
    const Report report = run(with_drafts(options, 5));
    CHECK(report.streams_digest == streams);
    CHECK(report.kills == options.kills);
}

TEST_CASE("a client that dies between windows in flight finds the tokens of the ones before in the logs") {
    SimOptions options = small_engine();
    const std::string streams = run(options).streams_digest;
    options.samplers = 2;
    options.chaos = ChaosTarget::client;
    options.kills = 60;
    options.ahead = 3;
    const Report report = run(with_drafts(options, 5));
    CHECK(report.streams_digest == streams);
    CHECK(report.kills == options.kills);
}

}  // namespace croupier::sim
