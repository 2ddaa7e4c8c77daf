// What the tests of texts have decided: chosen tokens, one after another.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

namespace croupier::testing {

// One greedy sequence of tokens that its biases choose one after another, in a session of its own.
class Script {
  public:
    Script(const DaemonProcess& daemon, const Pieces& pieces)
        : engine_(daemon.endpoint(), "script", shape_of(pieces)) {}

    // Decides one token of each, by adding the sequence again with its output so far.
    croupier_decision decide(client::Sequence sequence, const std::vector<std::int32_t>& tokens) {
        sequence.uid = 4;
        sequence.params.temperature = 0.0;
        croupier_decision last{};
        for (const std::int32_t token : tokens) {
            sequence.bias = {{token, 100.0F}};
            engine_.admit(sequence);
            engine_.step();
            last = engine_.decisions().at(4).back();
            REQUIRE(last.token == token);
            sequence.output.push_back(token);
            text_ = engine_.session().text(4);
            engine_.finish(4);
            if ((last.flags & CROUPIER_STOPPED) != 0) break;
        }
        return last;
    }
    const std::string& text() const { return text_; }

  private:
    static EngineShape shape_of(const Pieces& pieces) {
        EngineShape shape;
        shape.pieces = pieces;
        shape.batch = 1;
        return shape;
    }

    SmallEngine engine_;
    std::string text_;
};

}  // namespace croupier::testing
