#include <catch2/catch.hpp>

#include "sim/orchestrator.h"
#include "tests/sim/small_engine.h"

namespace croupier::sim {
namespace {

// Every end and every released byte is compared with a search in the whole text (sim/verifier.cpp).
SimOptions with_stops() {
    SimOptions options = small_engine();
    options.stops = true;
    options.tp = GENERATE(1U, 2U);
    options.transport = GENERATE(Transport::rows, Transport::lean);
    options.samplers = 2;
    return options;
}

}  // namespace

TEST_CASE(
    "stop strings, JSON and loops end the same requests with windows, steps ahead and truncates as without") {
    SimOptions options = with_stops();
    const Report plain = run(options);
    CHECK(plain.stop_strings > 20);
    CHECK(plain.json_values > 5);
    CHECK(plain.loops > 5);
    options.draft = 5;
    Report other = run(options);
    CHECK(other.streams_digest == plain.streams_digest);
    CHECK(other.stop_strings == plain.stop_strings);
    CHECK(other.json_values == plain.json_values);
    CHECK(other.loops == plain.loops);
    options.ahead = 3;
    options.decisions_over_zmq = true;
    options.truncates = 300;
    other = run(options);
    CHECK(other.streams_digest == plain.streams_digest);
    options.draft = 0;
    CHECK(run(options).streams_digest == plain.streams_digest);
}

TEST_CASE("stop strings, JSON values and loops are found whichever process is killed") {
    SimOptions options = with_stops();
    const std::string streams = run(options).streams_digest;
    options.chaos =
        GENERATE(ChaosTarget::samplers, ChaosTarget::daemon, ChaosTarget::writer, ChaosTarget::client);
    options.kills = 8;
    options.draft = 4;
    options.ahead = GENERATE(1U, 2U);
    options.truncates = 100;
    const Report report = run(options);
    CHECK(report.streams_digest == streams);
    CHECK(report.kills == options.kills);
}

TEST_CASE("tokens that are decided again from rows as they should be have their stop strings") {
    SimOptions options = with_stops();
    options.replay = 6;
    CHECK(run(options).stop_strings > 20);
}

}  // namespace croupier::sim
