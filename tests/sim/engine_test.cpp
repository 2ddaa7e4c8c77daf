#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "sim/orchestrator.h"
#include "sim/report_text.h"
#include "tests/sim/small_engine.h"

namespace croupier::sim {
TEST_CASE("tokens do not depend on samplers, threads, tiles and microbatches") {
    SimOptions options = small_engine();
    const std::string streams = run(options).streams_digest;
    options.samplers = 4;
    CHECK(run(options).streams_digest == streams);
    options.threads_per_sampler = 2;
    options.tile = 1;
    CHECK(run(options).streams_digest == streams);
    options.in_flight = 1;
    options.wait = "sleep";
    CHECK(run(options).streams_digest == streams);
}

TEST_CASE("a run without verification reports that, and the cost of columns") {
    SimOptions options = small_engine();
    options.mix = SimMix::fixed;
    options.verification = Verification::never;
    options.samplers = 2;
    Orchestrator orchestrator(options);
    const Report report = orchestrator.run();
    INFO(report.fault);
    CHECK(report.passed());
    CHECK(report.verified == 0);
    CHECK(report.full_batches > 0);
    CHECK(report.full_batches <= report.steps);
    CHECK(report.daemon.samplers == 2);
    // A sampler counts a column after its token can be taken.
    CHECK(report.daemon.columns <= report.tokens);
    CHECK(report.daemon.columns + report.daemon.samplers >= report.tokens);
    CHECK(report.daemon.column_mean_us > 0.0);
    CHECK(report.daemon.sampler_bytes > 0);
    CHECK(report.daemon.supervisor_bytes > 0);
}

TEST_CASE("a sampled verification ends soon after serving and reports its size") {
    SimOptions options;
    options.json = true;
    options.steps = 60;
    options.prompt_max = 500;
    options.verification = Verification::sample;
    Orchestrator orchestrator(options);
    const Report report = orchestrator.run();
    INFO(report.fault);
    CHECK(report.passed());
    CHECK(report.unfinished == 0);
    CHECK(report.verified > 0);
    CHECK(report.verified <= report.tokens);
    const std::string text = to_text(report, orchestrator.world());
    INFO(text);
    CHECK(text.find("verified   " + with_commas(report.verified) + " of " + with_commas(report.tokens) +
                    " tokens, none differ") != std::string::npos);
    CHECK((report.verified == report.tokens) == (text.find("--verify all") == std::string::npos));
}

TEST_CASE("with --samplers 0 the daemon chooses the number of samplers") {
    SimOptions options = small_engine();
    options.samplers = 0;
    options.steps = 10;
    const Report report = run(options);
    CHECK(report.daemon.samplers >= 1);
    CHECK(report.daemon.samplers < std::max(2U, std::thread::hardware_concurrency()));
}

TEST_CASE("decisions over ZMQ and randoms from the ring give the same tokens") {
    SimOptions options = small_engine();
    const std::string streams = run(options).streams_digest;
    options.decisions_over_zmq = true;
    options.randoms_in_ring = true;
    CHECK(run(options).streams_digest == streams);
}

TEST_CASE("other element types and vocabulary orders pass verification") {
    SimOptions options = small_engine();
    options.hotness_order = true;
    options.dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    run(options);
}

TEST_CASE("tokens do not depend on the arrival of requests") {
    SimOptions options = small_engine();
    const std::string streams = run(options).streams_digest;
    options.arrival_rate = 200.0;
    options.stage_ms = 0.5;
    CHECK(run(options).streams_digest == streams);
}

TEST_CASE("tokens stay the same if any process is killed at any moment, whatever the transport") {
    SimOptions options = small_engine();
    options.transport = GENERATE(Transport::rows, Transport::lean);
    const std::string streams = run(options).streams_digest;
    options.samplers = 2;
    options.chaos =
        GENERATE(ChaosTarget::samplers, ChaosTarget::daemon, ChaosTarget::writer, ChaosTarget::client);
    options.kills = 12;
    options.decisions_over_zmq = GENERATE(false, true);
    const Report report = run(options);
    CHECK(report.streams_digest == streams);
    CHECK(report.kills == options.kills);
}

TEST_CASE("a run that times out reports that and leaves no files") {
    SimOptions options = small_engine();
    options.stage_ms = 2000.0;
    options.timeout_s = 1;
    Orchestrator orchestrator(options);
    Report report = orchestrator.run();
    CHECK_FALSE(report.passed());
    CHECK(report.unfinished > 0);
    CHECK_THAT(report.fault, Catch::Contains("--timeout-s 1"));
    CHECK(report.left_in_shm == 0);
}

TEST_CASE("the error for a missing daemon contains its path") {
    SimOptions options = small_engine();
    options.croupierd = "/nowhere/croupierd";
    CHECK_THROWS_WITH(Orchestrator(options), Catch::Contains("/nowhere/croupierd"));
}

}  // namespace croupier::sim
