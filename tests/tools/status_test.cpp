// `croupier ping`, and what commands say of a daemon that they cannot look at.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/writer.hpp"
#include "shm/plane.h"
#include "shm/snapshot.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "testing/workplace.h"
#include "tools/status/table.h"

namespace croupier {
namespace {

using testing::DaemonProcess;
using testing::Ended;

constexpr uid_t kNobody = 65534;

}  // namespace

TEST_CASE("croupier ping and status tell whether the daemon is alive, stopped, handed over or not there") {
    DaemonProcess daemon;
    const testing::Workplace place;
    const std::string where = "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    const std::string pid = std::to_string(daemon.pid());
    const auto pinged = [&](int status, const std::string& end) {
        const Ended ended = place.run("ping " + where);
        INFO(ended.output);
        CHECK(ended.status == status);
        CHECK(ended.output.starts_with("croupierd, instance " + daemon.instance() + ", pid " + pid + ": " +
                                       end));
    };
    pinged(0, "alive, up ");
    CHECK(nlohmann::json::parse(place.run("ping --json " + where).output).at("alive") == true);
    daemon.signal(SIGSTOP);
    REQUIRE(testing::eventually([&] { return testing::is_stopped(daemon.pid()); }));
    pinged(3, "stopped by a signal");
    const Ended shown = place.run("status " + where);
    CHECK(shown.status == 3);
    CHECK(shown.output.find(": daemon pid " + pid + " STOPPED by a signal") != std::string::npos);
    const Ended object = place.run("status --json " + where);
    CHECK(object.status == 3);
    CHECK(nlohmann::json::parse(object.output).at("daemon").at("stopped") == true);
    CHECK_FALSE(nlohmann::json::parse(object.output).contains("build"));
    daemon.signal(SIGCONT);
    const Ended running = place.run("status --json " + where);
    CHECK(nlohmann::json::parse(running.output).at("daemon").at("stopped") == false);
    daemon.signal(SIGUSR1);
    REQUIRE(daemon.await_end() == 0);
    pinged(3, "dead");
    CHECK(place.run("status " + where).output.find(" DEAD (it died, or handed over;") != std::string::npos);
    const Ended nobody = place.run("ping -i nobody");
    CHECK(nobody.status == 1);
    CHECK(nobody.output.find(
              "; is croupierd running, with the instance name 'nobody'? -i and --shm-dir name its "
              "keys `instance` and `shm.dir`\n") != std::string::npos);
}

TEST_CASE("croupier status names the rank whose logits a step waits for") {
    const DaemonProcess daemon;
    const testing::Workplace place;
    const std::string endpoint = daemon.endpoint();
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = endpoint.c_str();
    options.vocab = 1000;
    options.tp = 2;
    client::Session session(options);
    writer::Options first;
    const std::string segment = session.segment_path();
    first.segment_path = segment.c_str();
    writer::Writer writer(first);
    client::Sequence sequence;
    sequence.uid = 1;
    session.add(sequence);
    const croupier_column column = croupier_column_of(1);
    REQUIRE(writer.begin(session.submit({&column, 1})));
    const std::vector<std::uint16_t> row(writer.info().ids);
    writer.enqueue(row.data(), row.size(), nullptr);
    const std::string where = "status -i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    Ended shown;
    const auto is_named = [&] {
        shown = place.run(where);
        return shown.output.find("\n  rank 1: no logits for the oldest step for ") != std::string::npos;
    };
    CHECK(testing::eventually(is_named));
    CHECK(shown.output.find("  rank 0: ") == std::string::npos);
}

TEST_CASE("croupier status names the process of a rank whose logits are missing") {
    DaemonProcess daemon;
    testing::SmallEngine engine(daemon.endpoint(), "engine");
    auto seen = shm::observe(daemon.shm_directory(), daemon.instance()).value();
    REQUIRE(seen.sessions.size() == 1);
    shm::SessionSnapshot& session = seen.sessions[0];
    REQUIRE(session.writer_pids == std::vector<std::int32_t>(session.geometry.tp, ::getpid()));
    CHECK(tools::to_table(seen, false).find("no logits for the oldest step") == std::string::npos);
    session.rank_behind_ns.back() = 13'000'000'000;
    const std::string rank = "  rank " + std::to_string(session.geometry.tp - 1);
    CHECK(tools::to_table(seen, false)
              .find(rank + ": no logits for the oldest step for 13 s (pid " + std::to_string(::getpid()) +
                    ")\n") != std::string::npos);
    session.writer_pids.back() = 0;
    CHECK(tools::to_table(seen, false).find(" for 13 s (no writer lives)\n") != std::string::npos);
    const auto object = nlohmann::json::parse(shm::to_json(seen));
    CHECK(object.at("sessions").at(0).at("writer_pids").at(0) == session.writer_pids[0]);
}

TEST_CASE("a sampler's busy share is that of its threads, in the answer and the table") {
    shm::Snapshot seen;
    seen.threads_per_sampler = 4;
    seen.samplers.emplace_back();
    seen.samplers[0].busy_ns = 2'000'000'000;
    seen.samplers[0].up_ns = 1'000'000'000;
    const auto object = nlohmann::json::parse(shm::to_json(seen));
    CHECK(object.at("samplers").at(0).at("busy_share") == 0.5);
    CHECK(tools::to_table(seen, false).find(" 50 %\n") != std::string::npos);
}

TEST_CASE("croupier cleanup names other instances with files in the same folder") {
    DaemonProcess daemon;
    const testing::Workplace place;
    const std::string folder = " --shm-dir " + daemon.shm_directory();
    daemon.kill_now();
    const Ended ended = place.run("cleanup -i nobody" + folder);
    CHECK(ended.status == 0);
    CHECK(ended.output == "nothing to remove of instance 'nobody' in " + daemon.shm_directory() +
                              "\nnot of this instance: files of '" + daemon.instance() +
                              "'; see `croupier cleanup -i " + daemon.instance() + "`\n");
    const auto object = nlohmann::json::parse(place.run("cleanup --json -i nobody" + folder).output);
    CHECK(object.at("other_instances") == std::vector<std::string>{daemon.instance()});
    CHECK(daemon.files_in_shm() == 1);
}

TEST_CASE("croupier cleanup names each file that it keeps, and why") {
    const DaemonProcess daemon;
    const testing::Workplace place;
    const std::string where = " -i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    const std::string plane = shm::plane_path(daemon.shm_directory(), daemon.instance());
    CHECK(place.run("cleanup" + where).output == "kept    " + plane + ": a live process holds it\n");
    const auto object = nlohmann::json::parse(place.run("cleanup --json" + where).output);
    CHECK(object.at("kept") ==
          nlohmann::json::parse("[{\"path\": \"" + plane + "\", \"reason\": \"a live process holds it\"}]"));
}

TEST_CASE("a user who may not look at the daemon is told who may") {
    if (::geteuid() != 0) return;  // only root can become another user
    const DaemonProcess daemon;
    auto other = testing::ChildProcess::start([&] {
        if (::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
        const auto plane =
            shm::Plane::attach(daemon.shm_directory(), daemon.instance(), shm::Access::read_only);
        if (plane || plane.error().code != shm::Errc::permission_denied) return 3;
        const std::string& said = plane.error().message;
        if (said.find("shm.mode") != std::string::npos) return 4;
        return said.ends_with(".plane: Permission denied; run as root or the daemon's user") ? 0 : 5;
    });
    CHECK(other.wait() == 0);
    const testing::Workplace place;
    const Ended cleanup =
        place.run("cleanup -i " + daemon.instance() + " --shm-dir " + daemon.shm_directory(),
                  "setpriv --reuid 65534 --regid 65534 --clear-groups ");
    CHECK(cleanup.status == 1);
    CHECK(cleanup.output == "cannot open " + daemon.shm_directory() +
                                ": only the daemon's user may; run as that user or as root\n");
}

}  // namespace croupier
