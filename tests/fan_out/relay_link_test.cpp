// A link between a scheduler and its relay that drops everything for seconds, and tells neither of them.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "testing/daemon_process.h"
#include "tests/fan_out/last_stage.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

void serve_across_a_cut(const TwoHosts& hosts, std::chrono::milliseconds length) {
    constexpr std::uint64_t kSequences = 4;
    constexpr std::size_t kTokens = 20;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), kSequences);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(kTokens / 2);
    REQUIRE(hosts.cut());
    {
        const std::jthread mending([&] {
            std::this_thread::sleep_for(length);
            hosts.mend();
        });
        scheduler.submit(0);
        CHECK_FALSE(scheduler.take_within(static_cast<std::uint32_t>(length.count() / 2)));
        scheduler.take();
    }
    scheduler.serve(kTokens);
    CHECK(scheduler.tokens() == served_locally(kSequences, kTokens));
    CHECK(scheduler.delivered_again() == 0);
    CHECK(stage.relay_log().find("event=relay_left") == std::string::npos);
    scheduler.close();
}

}  // namespace

TEST_CASE("a link that drops everything for seconds loses no token and gives none twice") {
    std::string why_not;
    const auto hosts = TwoHosts::in_namespaces(why_not);
    if (hosts && !hosts->cut()) why_not = "this kernel drops no packets for tc (cls_bpf)";
    if (!why_not.empty()) {
        WARN("skipped: " << why_not);
        return;
    }
    hosts->mend();
    const std::chrono::milliseconds length(GENERATE(2000, 5000));
    hosts->on_engine_host([&] { serve_across_a_cut(*hosts, length); });
}
