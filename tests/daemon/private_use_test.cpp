// A private daemon ends with the last engine that uses it, however that one died, and leaves nothing.
#include "daemon/supervisor/private_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/stand_in_process.h"

using namespace croupier;
using namespace croupier::testing;
using daemon::PrivateByte;

namespace {

struct ::flock range_of(PrivateByte byte, short type) {
    struct ::flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(byte);
    range.l_len = 1;
    return range;
}

// A runtime folder as vLLM's plugin has one.
class PrivatePlace : public Sandbox {
  public:
    PrivatePlace() : lock_(::open(lock_path().c_str(), O_RDWR | O_CREAT, 0600)) {
        write_config(kTwoSamplers, "");
    }
    ~PrivatePlace() { ::close(lock_); }
    PrivatePlace(const PrivatePlace&) = delete;
    PrivatePlace& operator=(const PrivatePlace&) = delete;

    ChildProcess start_daemon() const {
        return ChildProcess::execute(
            {CROUPIERD_PATH, "--config", config_path(), "--used-by-fd", std::to_string(lock_)},
            directory() + "/croupierd.log", SIGKILL);
    }
    // Returns when it is one; `does` follows in its process, which never ends by itself.
    ChildProcess start_engine(const std::function<void()>& does = [] {}) const {
        // Engines share the lock, so whether one more holds it only that one can say.
        std::array<int, 2> told{};
        REQUIRE(::pipe(told.data()) == 0);
        ChildProcess engine = ChildProcess::start([this, does, told] {
            struct ::flock range = range_of(PrivateByte::engines, F_RDLCK);
            if (::fcntl(lock_, F_SETLK, &range) != 0 || ::write(told[1], "h", 1) != 1) return 1;
            does();
            while (true) ::pause();
        });
        ::close(told[1]);
        char holds = 0;
        REQUIRE(::read(told[0], &holds, 1) == 1);
        ::close(told[0]);
        return engine;
    }
    bool is_ready() const {
        return eventually([&] {
            return text_of(directory() + "/croupierd.log").value_or("").find("ready: ") != std::string::npos;
        });
    }
    // In shared memory, and in the runtime folder.
    bool has_files() const {
        return std::filesystem::exists(shm_directory()) || std::filesystem::exists(directory());
    }
    std::vector<std::string> segments() const {
        std::vector<std::string> found;
        std::error_code none;
        for (const auto& entry : std::filesystem::directory_iterator(shm_directory(), none)) {
            if (entry.path().extension() == ".seg") found.push_back(entry.path());
        }
        return found;
    }
    std::vector<std::string> used_by() const { return {"--used-by-fd", std::to_string(lock_)}; }

  private:
    std::string lock_path() const { return directory() + "/engines.lock"; }

    int lock_;
};

}  // namespace

TEST_CASE("a private daemon ends after the last engine that was killed, and leaves no file") {
    const PrivatePlace place;
    ChildProcess first = place.start_engine();
    ChildProcess daemon = place.start_daemon();
    REQUIRE(place.is_ready());
    ChildProcess second = place.start_engine();
    first.kill_and_reap();
    // Longer than it waits for another engine.
    ::sleep(3);
    CHECK_FALSE(daemon.poll());
    second.kill_and_reap();
    CHECK(daemon.wait() == 0);
    CHECK_FALSE(place.has_files());
}

TEST_CASE("a private daemon ends though a child of the dead engine lives on with all its descriptors") {
    const PrivatePlace place;
    std::array<int, 2> told{};
    REQUIRE(::pipe(told.data()) == 0);
    ChildProcess engine = place.start_engine([&] {
        const pid_t child = ::fork();
        if (child == 0) {
            while (true) ::pause();
        }
        [[maybe_unused]] const auto written = ::write(told[1], &child, sizeof(child));
    });
    pid_t child = 0;
    REQUIRE(::read(told[0], &child, sizeof(child)) == sizeof(child));
    ChildProcess daemon = place.start_daemon();
    REQUIRE(place.is_ready());
    engine.kill_and_reap();
    CHECK(daemon.wait() == 0);
    CHECK(::kill(child, SIGKILL) == 0);
    CHECK_FALSE(place.has_files());
    for (const int end : told) ::close(end);
}

TEST_CASE("a private daemon ends whose engine died before it was ready, or left its session open") {
    const bool opens = GENERATE(false, true);
    const PrivatePlace place;
    ChildProcess engine = place.start_engine([&] {
        if (!opens) return;
        SmallEngine own(place.endpoint(), "engine");
        own.admit(4);
        own.step();
        while (true) ::pause();
    });
    ChildProcess daemon = place.start_daemon();
    if (opens) REQUIRE(eventually([&] { return !place.segments().empty(); }));
    engine.kill_and_reap();
    CHECK(daemon.wait() == 0);
    CHECK_FALSE(place.has_files());
}

TEST_CASE("files that are not the private daemon's stay in its runtime folder") {
    const PrivatePlace place;
    const std::string other = place.directory() + "/notes";
    ::close(::open(other.c_str(), O_CREAT | O_WRONLY, 0600));
    ChildProcess engine = place.start_engine();
    ChildProcess daemon = place.start_daemon();
    REQUIRE(place.is_ready());
    engine.kill_and_reap();
    CHECK(daemon.wait() == 0);
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(place.directory()))
        left.push_back(entry.path());
    CHECK(left == std::vector<std::string>{other});
}

TEST_CASE("a stand-in whose engine and private daemon were killed removes what they left") {
    const PrivatePlace place;
    ChildProcess engine = place.start_engine([&] {
        SmallEngine own(place.endpoint(), "engine");
        own.admit(4);
        own.step();
        while (true) ::pause();
    });
    ChildProcess daemon = place.start_daemon();
    // Without a client there would be nothing to stand in for.
    REQUIRE(eventually([&] {
        const auto paths = place.segments();
        if (paths.empty()) return false;
        const auto segment = shm::Segment::attach(paths.front(), shm::Access::read_only);
        return segment && segment.value().is_held(shm::Role::client);
    }));
    REQUIRE(place.is_ready());
    ChildProcess beside =
        start_stand_in(place.segments().front(), "/dev/null", CROUPIERD_PATH, place.used_by());
    SECTION("at once") {
        daemon.kill_and_reap();
        engine.kill_and_reap();
        CHECK(beside.wait() == 0);
        CHECK_FALSE(place.has_files());
    }
    SECTION("but not beside another engine") {
        ChildProcess other = place.start_engine();
        daemon.kill_and_reap();
        engine.kill_and_reap();
        CHECK(beside.wait() == 0);
        CHECK(place.segments().size() == 1);
        CHECK(std::filesystem::exists(place.config_path()));
    }
}
