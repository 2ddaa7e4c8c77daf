#include <catch2/catch.hpp>

#include "sim/orchestrator.h"
#include "tests/sim/small_engine.h"

namespace croupier::sim {
namespace {

SimOptions with_replays(SimOptions options, std::uint32_t tokens) {
    options.replay = tokens;
    return options;
}

}  // namespace

TEST_CASE("tokens that are decided again are those of rows that nobody perturbed") {
    SimOptions options = small_engine();
    options.tp = GENERATE(1U, 3U);
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    options.samplers = 2;
    for (const std::uint32_t tokens : {1U, 7U, 40U, 63U}) {
        const Report report = run(with_replays(options, tokens));
        CHECK(report.streams_digest == streams);
        // A window of one token may bring another one, too.
        CHECK(report.replayed >= report.tokens / 2);
        CHECK(report.rolled_back > 0);
    }
}

TEST_CASE("tokens that are decided again survive the death of any process at any moment") {
    SimOptions options = small_engine();
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    options.samplers = 2;
    options.chaos =
        GENERATE(ChaosTarget::samplers, ChaosTarget::daemon, ChaosTarget::writer, ChaosTarget::client);
    options.kills = 8;
    const Report report = run(with_replays(options, GENERATE(20U, 63U)));
    CHECK(report.streams_digest == streams);
    CHECK(report.kills == options.kills);
}

}  // namespace croupier::sim
