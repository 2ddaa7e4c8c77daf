// What croupier/client.hpp says of a session that was closed, or moved to another object.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>

#include "croupier/client.hpp"
#include "testing/daemon_process.h"

using namespace croupier;
using client::Session;

namespace {

// What the call throws: "session_closed", for instance.
std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const client::Failure& failure) {
        return failure.name();
    }
    return "none";
}

void check_refused(Session& session) {
    const croupier_column column = croupier_column_of(1);
    CHECK(refusal([&] { session.segment_path(); }) == "session_closed");
    CHECK(refusal([&] { session.resumed(); }) == "session_closed");
    CHECK(refusal([&] { session.live(); }) == "session_closed");
    CHECK(refusal([&] { session.output(1); }) == "session_closed");
    CHECK(refusal([&] { session.in_flight(); }) == "session_closed");
    CHECK(refusal([&] { session.add({}); }) == "session_closed");
    CHECK(refusal([&] { session.text(1); }) == "session_closed");
    CHECK(refusal([&] { session.submit({&column, 1}); }) == "session_closed");
    CHECK(refusal([&] { static_cast<void>(session.wait(0)); }) == "session_closed");
    CHECK(refusal([&] { session.close(); }) == "session_closed");
}

}  // namespace

TEST_CASE("every call on a session that was closed or moved away is refused by name") {
    const testing::DaemonProcess daemon;
    REQUIRE(daemon.await_ready());
    const std::string endpoint = daemon.endpoint();
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = endpoint.c_str();
    options.vocab = 1000;
    Session first(options);
    Session second(std::move(first));
    check_refused(first);
    CHECK(second.in_flight() == 0);
    second.close();
    check_refused(second);
}
