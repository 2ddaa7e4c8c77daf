// A history that takes long to derive is followed in parts, so that other sessions do not wait for all of it.
#include <catch2/catch.hpp>
#include <string>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/column_preparation.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/attached_view.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kLong = 5000;

EngineShape long_shape() {
    EngineShape shape;
    shape.max_length = 2 * kLong;
    return shape;
}

client::Sequence long_sequence(std::uint64_t uid) {
    client::Sequence sequence = SmallEngine::sequence(uid, EngineShape().vocab);
    sequence.params.repetition_penalty = 1.3;
    sequence.params.dry_multiplier = 0.8;
    sequence.prompt.clear();
    for (std::uint32_t i = 0; i < kLong; ++i)
        sequence.prompt.push_back(static_cast<std::int32_t>(i * i % EngineShape().vocab));
    return sequence;
}

}  // namespace

TEST_CASE("a column whose history is long is prepared in parts") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", long_shape());
    engine.admit(long_sequence(1));
    const std::uint64_t number = engine.submit();
    proto::StateTotals totals{};
    const auto view = attached_view(engine.segment_path(), totals).value();
    daemon::CheckedStep step;
    REQUIRE(check_record(view->segment(), number, step) == proto::DecisionError::none);
    const daemon::Lane lane{0, 0};
    daemon::PreparedRaces races;
    races.begin_step();
    CHECK(has_long_history(*view, step, 0, lane));
    int parts = 1;
    while (!prepare_column(*view, step, 0, lane, races)) ++parts;
    CHECK(parts == 5);
    CHECK_FALSE(has_long_history(*view, step, 0, lane));
    CHECK(follow_history(*view, step, 0, lane));
    engine.write();
    engine.collect();
}

TEST_CASE("the tokens of long histories are the reference's, beside another session and alone") {
    const std::string samplers = GENERATE("{count: 1}", "{count: 2}", "{count: 1, threads_per_sampler: 2}");
    const DaemonProcess daemon(samplers);
    SmallEngine ordinary(daemon.endpoint(), "ordinary");
    SmallEngine engine(daemon.endpoint(), "engine", long_shape());
    ordinary.admit(4);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        engine.admit(long_sequence(uid));
        ordinary.submit();
        engine.submit();
        engine.write();
        ordinary.write();
        engine.collect();
        ordinary.collect();
    }
    ordinary.session().close();
    engine.admit(long_sequence(9));
    engine.finish(1);
    engine.steps(2);
    CHECK(daemon.sampler_restarts() == 0);
}
