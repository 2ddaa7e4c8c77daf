// While a lean step's logits are due, its columns are decided for nothing, so that what decisions need is
// near.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/poison.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint64_t kPoisoned = 3;

EngineShape lean_shape(std::uint32_t tp) {
    EngineShape shape;
    shape.tp = tp;
    shape.lean = true;
    return shape;
}

// An engine whose steps take some milliseconds: when the next logits are due is known after a few.
void paced_steps(SmallEngine& engine, int count) {
    for (int i = 0; i < count; ++i) {
        const auto logits = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
        engine.submit();
        std::this_thread::sleep_until(logits);
        engine.write();
        engine.collect();
    }
}

}  // namespace

TEST_CASE("tokens of an engine whose steps take their time are the reference's") {
    const std::uint32_t tp = GENERATE(1U, 2U);
    const std::string threads = GENERATE("1", "3");
    const DaemonProcess daemon("{count: 2, threads_per_sampler: " + threads + "}");
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(tp));
    engine.admit(8);
    paced_steps(engine, 60);
    CHECK(daemon.sampler_restarts() == 0);
}

TEST_CASE("a column that ends samplers when its decision is rehearsed is decided when its logits are there") {
    const DaemonProcess daemon(kTwoSamplers, "", POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(1));
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, EngineShape().vocab);
        if (uid == kPoisoned) sequence.params.seed = kAbortsInRehearsal;
        engine.admit(sequence);
    }
    for (int step = 0; step < 400 && daemon.sampler_restarts() == 0; ++step) paced_steps(engine, 1);
    REQUIRE(daemon.sampler_restarts() >= 1);
    // Each of the two samplers dies of it once.
    paced_steps(engine, 50);
    CHECK(daemon.sampler_restarts() <= 2);
}
