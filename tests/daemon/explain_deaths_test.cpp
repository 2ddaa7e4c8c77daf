// Who dies while a decision is captured for /explain, and what is left of users' texts then.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <optional>

#include "tests/daemon/explaining.h"
#include "tests/daemon/poison.h"
#include "tools/status/cleanup.h"

using namespace croupier;
using namespace croupier::testing;

TEST_CASE("a sampler that dies with a captured decision costs neither the decision nor the answer") {
    const Explaining explaining("{count: 2, heartbeat_timeout_ms: 600000}", "", POISONED_PATH);
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    client::Sequence poisoned = SmallEngine::sequence(1, EngineShape().vocab);
    poisoned.params.seed = kStopsBeforeCommit;
    engine.admit(poisoned);
    Asked asked = explaining.ask(1);
    engine.submit();
    engine.write();
    // Whoever decides it stops when it has, before the commit.
    const auto stopped = [&]() -> pid_t {
        for (const std::uint32_t index : {0U, 1U}) {
            const pid_t sampler = explaining.daemon.sampler_pid(index);
            if (sampler > 0 && is_stopped(sampler)) return sampler;
        }
        return 0;
    };
    REQUIRE(eventually([&] { return stopped() != 0; }));
    const pid_t first = stopped();
    ::kill(first, SIGKILL);
    REQUIRE(eventually([&] { return stopped() != 0 && stopped() != first; }));
    ::kill(stopped(), SIGCONT);
    engine.collect();
    check_explained(asked.json(), engine.streams().at(1).back(), 0);
}

TEST_CASE("a daemon that ends, or is killed, leaves no request unanswered for long and nothing of users") {
    Explaining explaining;
    std::optional<SmallEngine> engine(std::in_place, explaining.daemon.endpoint(), "engine");
    engine->admit(2);
    Asked asked = explaining.ask(1);
    SECTION("it ends") {
        CHECK(explaining.daemon.terminate() == 0);
        // Its samplers' end may take longer than to see that of the session.
        const std::string answer = asked.get();
        CHECK((answer.empty() || Catch::Contains("session 'engine' ended").match(answer)));
        CHECK(explaining.daemon.files_in_shm() == 0);
    }
    SECTION("it is killed, and another follows") {
        const auto queue =
            shm::CaptureExchange::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
        explaining.daemon.kill_now();
        CHECK(asked.get().empty());
        // As a sampler may have left it in the meantime.
        const std::vector<std::byte> captured(64);
        REQUIRE(queue.value().leave(captured));
        explaining.daemon.start();
        REQUIRE(explaining.daemon.await_ready());
        CHECK_FALSE(explaining.has_captured());
        Asked again = explaining.ask(1);
        engine->step();
        check_explained(again.json(), engine->streams().at(1).back(), 0);
    }
    SECTION("it is killed, and somebody cleans up") {
        const auto queue =
            shm::CaptureExchange::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
        engine.reset();
        explaining.daemon.kill_now();
        CHECK(asked.get().empty());
        const std::vector<std::byte> captured(64);
        REQUIRE(queue.value().leave(captured));
        REQUIRE(eventually([&] {
            const auto cleaned =
                tools::clean_up(explaining.daemon.shm_directory(), explaining.daemon.instance());
            return cleaned && cleaned.value().kept.empty();
        }));
        CHECK(explaining.daemon.files_in_shm() == 0);
    }
}

TEST_CASE("a capture that a sampler stores too late does not answer a later request") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(2);
    const auto queue =
        shm::CaptureExchange::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
    const std::vector<std::byte> late(sizeof(proto::CapturedHead) + 4);
    REQUIRE(queue.value().leave(late));
    Asked asked = explaining.ask(1);
    engine.step();
    check_explained(asked.json(), engine.streams().at(1).back(), 0);
}

TEST_CASE("only the daemon's user can open what is captured") {
    const Explaining explaining;
    for (const std::string& path :
         shm::CaptureExchange::paths(explaining.daemon.shm_directory(), explaining.daemon.instance())) {
        if (!std::filesystem::exists(path)) continue;
        const auto mode = std::filesystem::status(path).permissions();
        CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    }
    const auto queue =
        shm::CaptureExchange::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
    const std::vector<std::byte> captured(8);
    REQUIRE(queue.value().leave(captured));
    const std::string path =
        shm::CaptureExchange::paths(explaining.daemon.shm_directory(), explaining.daemon.instance()).back();
    CHECK(std::filesystem::status(path).permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    // Nobody is told of it, and a second one is no replacement.
    CHECK_FALSE(queue.value().leave(captured));
    CHECK(queue.value().take().value()->size() == 8);
    CHECK_FALSE(queue.value().take().value());
}
