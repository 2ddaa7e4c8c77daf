// An engine that forks without exec: the child keeps none of its locks, and is told so by every call.
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <functional>

#include "croupier/writer.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

struct Seen {
    std::atomic<pid_t> engine{0};
    std::atomic<pid_t> helper{0};  // once it has called everything
    std::array<std::array<char, 256>, 17> errors{};
    std::atomic<std::size_t> calls{0};

    void note(const std::string& error) {
        std::snprintf(errors[calls].data(), errors[calls].size(), "%s", error.c_str());
        ++calls;
    }
};

struct Roles {
    SmallEngine* engine;
    croupier_writer* writer;
};

croupier_writer* attach_writer(const SmallEngine& engine) {
    croupier_writer_options options;
    croupier_writer_options_init(&options);
    const std::string path = engine.segment_path();
    options.segment_path = path.c_str();
    croupier_writer* writer = nullptr;
    croupier_error error{};
    if (croupier_writer_attach(&options, &writer, &error) != 0) throw std::runtime_error(error.text);
    return writer;
}

void call_session(client::Session& session, Seen& seen) {
    const croupier_column column = croupier_column_of(1);
    seen.note(failure_of([&] { session.add(SmallEngine::sequence(20, 1000)); }));
    seen.note(failure_of([&] { session.finish(1); }));
    seen.note(failure_of([&] { session.submit({&column, 1}); }));
    seen.note(failure_of([&] { static_cast<void>(session.wait(0)); }));
    seen.note(failure_of([&] { session.give_up(0); }));
    seen.note(failure_of([&] { session.output(1); }));
    seen.note(failure_of([&] { session.live(); }));
    seen.note(failure_of([&] { session.close(); }));
}

void call_writer(croupier_writer* writer, Seen& seen) {
    std::uint64_t step = 0;
    std::uint32_t columns = 0;
    std::int32_t token = 0;
    const std::array<std::uint16_t, 1000> row{};
    const auto note = [&](const std::function<int(croupier_error*)>& call) {
        croupier_error error{};
        const int status = call(&error);
        seen.note(status < 0 ? std::string(croupier_writer_error_name(error.code)) + ": " + error.text : "");
    };
    note([&](auto* error) { return croupier_writer_wait_step(writer, 0, &step, &columns, error); });
    note([&](auto* error) { return croupier_writer_begin(writer, 0, error); });
    note(
        [&](auto* error) { return croupier_writer_enqueue(writer, nullptr, row.data(), row.size(), error); });
    note([&](auto* error) { return croupier_writer_enqueue_randoms(writer, nullptr, error); });
    note([&](auto* error) { return croupier_writer_wait_tokens(writer, 0, 0, error); });
    note([&](auto* error) { return croupier_writer_enqueue_tokens(writer, nullptr, 0, &token, error); });
    note([&](auto* error) { return croupier_writer_abandon(writer, error); });
    croupier_writer_info info;
    croupier_writer_info_init(&info);
    note([&](auto* error) { return croupier_writer_get_info(writer, &info, error); });
    croupier_writer_state state;
    croupier_writer_state_init(&state);
    note([&](auto* error) { return croupier_writer_get_state(writer, &state, error); });
    croupier_writer_detach(writer);
}

// A child of the engine that goes on when the engine is dead.
void help(const Roles& roles, Seen& seen) {
    call_writer(roles.writer, seen);
    call_session(roles.engine->session(), seen);
    seen.helper = ::getpid();
    while (true) ::pause();
}

// Runs until it is killed, with both roles and a forked helper.
ChildProcess start_engine(const DaemonProcess& daemon, const EngineShape& shape, Seen& seen) {
    return ChildProcess::start([&] {
        try {
            SmallEngine engine(daemon.endpoint(), "engine", shape);
            engine.admit(8);
            engine.step();
            engine.detach_writers();
            const Roles roles{&engine, attach_writer(engine)};
            if (::fork() == 0) {
                help(roles, seen);
                ::_exit(0);
            }
            while (seen.helper == 0) ::usleep(1000);
            seen.engine = ::getpid();
            while (true) ::pause();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "engine: %s\n", failure.what());
        }
        return 1;
    });
}

// Ends the helper, whose parent is dead, whatever the test finds.
class HelperEnd {
  public:
    explicit HelperEnd(Seen& seen) : seen_(&seen) {}
    HelperEnd(const HelperEnd&) = delete;
    HelperEnd& operator=(const HelperEnd&) = delete;
    ~HelperEnd() {
        if (seen_->helper != 0) ::kill(seen_->helper, SIGKILL);
    }

  private:
    Seen* seen_;
};

EngineShape one_rank() {
    EngineShape shape;
    shape.tp = 1;
    return shape;
}

}  // namespace

TEST_CASE("an engine that is killed is followed at once by another, though a child that it forked lives on") {
    const DaemonProcess daemon;
    const Shared<Seen> seen;
    const HelperEnd end(*seen);
    EngineShape shape = one_rank();
    auto first = start_engine(daemon, shape, *seen);
    REQUIRE(eventually([&] { return seen->engine != 0; }));
    first.kill_and_reap();
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    CHECK(engine.session().resumed());
    engine.steps(3);
    CHECK(::kill(seen->helper, 0) == 0);
}

TEST_CASE("a session ends after its grace, though a child of its dead engine lives on") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {reattach_grace_ms: 100}");
    const Shared<Seen> seen;
    const HelperEnd end(*seen);
    auto first = start_engine(daemon, one_rank(), *seen);
    REQUIRE(eventually([&] { return seen->engine != 0; }));
    first.kill_and_reap();
    CHECK(eventually([&] { return daemon.files_in_shm() == 1; }));
    CHECK(::kill(seen->helper, 0) == 0);
}

TEST_CASE("a forked child that calls the library is told whose session and writer it holds") {
    const DaemonProcess daemon;
    const Shared<Seen> seen;
    const HelperEnd end(*seen);
    auto first = start_engine(daemon, one_rank(), *seen);
    REQUIRE(eventually([&] { return seen->engine != 0; }));
    REQUIRE(seen->calls == 17);
    for (std::size_t call = 0; call < seen->calls; ++call) {
        INFO("call " << call);
        CHECK_THAT(std::string(seen->errors[call].data()),
                   Contains("forked: this ") && Contains("of process " + std::to_string(seen->engine)));
    }
}
