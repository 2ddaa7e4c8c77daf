// The set-up of tests that restart or kill a part of a serving plane: a daemon, and an engine whose batch is
// full.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

namespace croupier::testing {

// For TEST_CASE_METHOD, or as a variable where the daemon's options differ.
struct ServedEngine {
    ServedEngine() : ServedEngine(EngineShape{}) {}
    explicit ServedEngine(const EngineShape& asked, const std::string& extra = "")
        : shape(asked), daemon(kTwoSamplers, extra), engine(daemon.endpoint(), "engine", shape) {
        engine.admit(shape.batch);
    }

    EngineShape shape;
    DaemonProcess daemon;
    SmallEngine engine;
};

// Runs the test once for each way in which decisions come back: by the segment's ring, and as ZMQ messages.
struct EngineServedEachWay : ServedEngine {
    explicit EngineServedEachWay(const std::string& extra = "") : ServedEngine(shape_of_a_way(), extra) {}

    const char* way() const { return shape.decisions_over_zmq ? "ZMQ" : "ring"; }

  private:
    static EngineShape shape_of_a_way() {
        EngineShape made;
        made.decisions_over_zmq = GENERATE(false, true);
        return made;
    }
};

}  // namespace croupier::testing
