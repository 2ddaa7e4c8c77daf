// Ranks that hold unequal shares of the vocabulary.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

TEST_CASE("tokens do not depend on how the ranks share the vocabulary") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.tp = 3;
    shape.summaries = GENERATE(false, true);
    // The last rank of the third holds nothing but padding.
    const auto shares =
        std::vector<std::vector<std::uint32_t>>{{100, 700, 200}, {1, 1, 998}, {600, 400, 24}, {1, 999, 1}};
    for (const auto& share : shares) {
        INFO(share[0] << ", " << share[1] << ", " << share[2]);
        shape.shard_ids = share;
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(8);
        // Each decision is checked against the reference.
        engine.steps(4);
        engine.session().close();
    }
}

TEST_CASE("shares that do not fit are refused, as are those of another open") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.tp = 2;
    const auto refusal = [&](std::vector<std::uint32_t> share) {
        shape.shard_ids = std::move(share);
        return failure_of([&] { SmallEngine(daemon.endpoint(), "engine", shape); });
    };
    CHECK_THAT(refusal({500, 499}), Contains("the shards hold 999 ids together, the vocabulary has 1000"));
    CHECK_THAT(refusal({1000, 0}), Contains("shard of rank 1 has 0 ids; each rank holds at least one"));
    CHECK_THAT(refusal({0xFFFFFFFF, 1001}), Contains("the shards of rank 0 to 0 hold 4294967295 ids"));
    shape.padded_vocab = 1024;
    CHECK_THAT(refusal({500, 524}), Contains("padded_vocab and shard_ids are both given"));
    shape.padded_vocab = 0;
    shape.shard_ids = {300, 700};
    { const SmallEngine first(daemon.endpoint(), "engine", shape); }
    shape.resume = true;
    CHECK_THAT(refusal({500, 500}),
               Contains("the number of ids of rank 0 is 300 in the session and 500 in the"));
    CHECK_THAT(refusal({300, 701}),
               Contains("the number of ids of rank 1 is 700 in the session and 701 in the"));
}
