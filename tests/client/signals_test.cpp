// An engine that handles signals often, as under a profiler.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/frequent_signals.h"
#include "testing/small_engine.h"

using namespace croupier::testing;

TEST_CASE("signals that an engine handles fail no call of a session") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.decisions_over_zmq = GENERATE(false, true);
    INFO("over ZMQ " << shape.decisions_over_zmq);
    const FrequentSignals signals;
    for (int session = 0; session < 20; ++session) {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(8);
        engine.steps(40);
    }
}
