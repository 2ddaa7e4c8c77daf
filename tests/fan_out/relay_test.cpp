// A scheduler without a segment of its own, and the host where its session is: tokens as from a local
// session.
#include <poll.h>

#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/random_json.h"
#include "testing/small_engine.h"
#include "tests/fan_out/last_stage.h"
#include "tests/fan_out/transports.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// Finished where the session is, and named by a step in flight there.
bool is_ending(const std::string& segment_path, std::uint64_t uid) {
    const auto segment = shm::Segment::attach(segment_path, shm::Access::read_only);
    REQUIRE(segment);
    for (std::uint32_t slot = 0; slot < segment.value().geometry().max_sequences; ++slot) {
        const proto::SequenceEntry& entry = segment.value().sequence(slot);
        if (entry.uid == uid && entry.state == proto::SequenceState::ending) return true;
    }
    return false;
}

bool maps_a_segment() {
    return text_of("/proc/self/maps").value_or("").find("/croupier-") != std::string::npos;
}

void serve_like_a_local_session(const TwoHosts& hosts, bool masked) {
    constexpr std::size_t kTokens = 40;
    LastStage stage(hosts);
    stage.start_relay();
    hosts.on_engine_host([&] {
        RemoteScheduler scheduler(stage.route(), 8, masked);
        scheduler.open();
        CHECK_FALSE(scheduler.session().resumed());
        CHECK_FALSE(maps_a_segment());
        stage.start_writer(scheduler.session().segment_path());
        scheduler.serve(kTokens);
        CHECK(scheduler.session().output(3) == scheduler.tokens().at(3));
        scheduler.session().finish(3);
        CHECK(scheduler.session().live().size() == 7);
        CHECK_FALSE(maps_a_segment());
        CHECK(scheduler.tokens() == served_locally(8, kTokens, masked));
        CHECK(scheduler.delivered_again() == 0);
        scheduler.close();
    });
    CHECK(eventually([&] { return stage.relay_log().find("let go") != std::string::npos; }));
    CHECK(eventually([&] { return stage.daemon().files_in_shm() == 1; }));
}

// As the daemon has it.
std::string name_of(const client::Session& session) {
    const auto segment = shm::Segment::attach(session.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    return segment.value().header().name;
}

}  // namespace

TEST_CASE("a session through a relay gives the tokens of a local one, over 127.0.0.1") {
    const bool masked = GENERATE(false, true);
    serve_like_a_local_session(TwoHosts(), masked);
}

TEST_CASE("stop strings and texts come through a relay, and to the client that resumes the session") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    const bool json = GENERATE(false, true);
    const Pieces pieces =
        json ? json_pieces(RemoteScheduler::kVocab) : small_alphabet_pieces(RemoteScheduler::kVocab);
    const TokenizerFile tokenizer(tiktoken_file(pieces));
    std::unique_ptr<RelayGroup> group;
    std::unique_ptr<client::Session> session;
    const auto open = [&] {
        session.reset();
        group.reset();
        group = std::make_unique<RelayGroup>(stage.route());
        client::OpenOptions options = options_through(*group);
        options.name = "texts";
        options.resume = 1;
        options.tokenizer = tokenizer.path().c_str();
        session = std::make_unique<client::Session>(options);
        // A step comes again if the relay has not heard that it was taken.
        while (session->in_flight() > 0) REQUIRE(session->wait(20000));
    };
    open();
    stage.start_writer(session->segment_path());
    client::Sequence sequence = SmallEngine::sequence(4, RemoteScheduler::kVocab);
    sequence.stop_strings = {"bba", "aab\u20AC", "abab"};
    sequence.params.min_tokens = 2;
    if (json) {
        sequence.stop_strings = {"]["};
        sequence.params.flags |= CROUPIER_STOP_AT_JSON;
        // Values by themselves, and a space.
        sequence.allowed_ids = {2, 3, 4, 6, 7};
    }
    session->add(sequence);
    const std::string unfinished = unfinished_of(pieces, sequence.prompt);
    const croupier_column column = croupier_column_of(4);
    std::vector<std::int32_t> output;
    int stops = 0;
    for (int position = 0; position < 30; ++position) {
        session->submit({&column, 1});
        const auto step = session->wait(20000);
        REQUIRE(step);
        const croupier_decision decision = step->decisions[0];
        REQUIRE(decision.error == 0);
        output.push_back(decision.token);
        const ReferenceText text =
            reference_text(pieces, rules_of(sequence), unfinished, output, OtherEnd::none);
        stops += text.stop ? 1 : 0;
        CHECK((decision.flags & CROUPIER_STOPPED) == (text.stop ? text.stop->flag : 0));
        CHECK(decision.text_bytes == text.released.size());
        CHECK(session->text(4) == text.released);
        if (position % 7 == 6) open();
        CHECK(session->text(4) == text.released);
        CHECK(session->text_stop(4) == text.stop);
    }
    CHECK(stops > 1);
    session->close();
}

TEST_CASE("a session through a relay gives the tokens of a local one, between two network namespaces") {
    std::string why_not;
    const auto hosts = TwoHosts::in_namespaces(why_not);
    if (!hosts) {
        WARN("skipped: " << why_not);
        return;
    }
    serve_like_a_local_session(*hosts, false);
}

TEST_CASE(
    "a session through a relay over NCCL, whose ranks write from two GPUs, gives the tokens of a local one") {
    if (!can_run(fan_out::Transport::nccl)) return;
    const bool masked = GENERATE(false, true);
    constexpr std::size_t kTokens = 40;
    const TwoHosts hosts;
    LastStage stage(hosts, fan_out::Transport::nccl);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 8, masked);
    INFO(stage.relay_log());
    scheduler.open();
    stage.start_gpu_writers(scheduler.session().segment_path());
    scheduler.serve(kTokens / 2);
    // A group of GPUs ends with its relay; the next one goes on.
    stage.kill_relay();
    CHECK_THAT(failure_of_going_on(scheduler), Contains("peer_gone") && Contains("member 1"));
    scheduler.leave();
    stage.start_relay();
    scheduler.open();
    CHECK(scheduler.session().resumed());
    scheduler.serve(kTokens);
    CHECK(scheduler.tokens() == served_locally(8, kTokens, masked));
    scheduler.close();
    CHECK(eventually([&] { return stage.relay_log().find("event=relay_let_go") != std::string::npos; }));
}

TEST_CASE(
    "through a relay a sequence is truncated and finished in flight, and a table that is full with them says "
    "so") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 6);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(8);
    const bool resumed = GENERATE(false, true);
    const Tokens before = scheduler.tokens();
    scheduler.session().truncate(1, 3);
    CHECK(scheduler.session().output(1).size() == 3);
    for (std::uint64_t uid = 101; uid <= 110; ++uid)
        scheduler.session().add(SmallEngine::sequence(uid, RemoteScheduler::kVocab));
    stage.stop_writer();
    const std::vector<croupier_column> columns = {{2, nullptr, 1, 0}, {101, nullptr, 1, 0}};
    scheduler.session().submit(columns);
    scheduler.session().finish(101);
    if (resumed) {
        // Who leaves before that takes with it what it sent.
        REQUIRE(eventually([&] { return is_ending(scheduler.session().segment_path(), 101); }));
        scheduler.leave();
        scheduler.open_without_recovery();
        REQUIRE(scheduler.session().resumed());
    }
    // All 16 places are taken, one of them by what is in flight.
    CHECK_THAT(
        failure_of([&] { scheduler.session().add(SmallEngine::sequence(111, RemoteScheduler::kVocab)); }),
        Contains("table_full"));
    stage.start_writer(scheduler.session().segment_path());
    const auto step = scheduler.session().wait(20000);
    REQUIRE(step);
    CHECK(step->decisions[0].error == 0);
    CHECK(step->decisions[1].error == CROUPIER_DECISION_VOID);
    scheduler.session().add(SmallEngine::sequence(111, RemoteScheduler::kVocab));
    // What was cut off comes again.
    const std::vector<croupier_column> again = {{1, nullptr, 1, 0}};
    for (std::size_t position = 3; position < 8; ++position) {
        scheduler.session().submit(again);
        const auto one = scheduler.session().wait(20000);
        REQUIRE(one);
        CHECK(one->decisions[0].token == before.at(1)[position]);
    }
    scheduler.close();
}

TEST_CASE("through a relay a sequence is forked, and its child decided as by a local session") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 2);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(8);
    const Tokens before = scheduler.tokens();
    client::Session& session = scheduler.session();
    session.fork(1, 50, 5, 0);
    CHECK(session.output(50) == std::vector<std::int32_t>(before.at(1).begin(), before.at(1).begin() + 5));
    CHECK_THAT(failure_of([&] { session.fork(1, 51, 9, 0); }), Contains("9 of them cannot be kept"));
    CHECK_THAT(failure_of([&] { session.fork(1, 2, 5, 0); }), Contains("is live already"));
    CHECK_THAT(failure_of([&] { session.fork(60, 61, 5, 0); }), Contains("unknown_sequence"));
    CHECK_THAT(failure_of([&] { session.fork(1, 51, 5, 1024); }), Contains("child is 1024"));
    const std::int32_t token = 5;
    CHECK_THAT(failure_of([&] {
                   session.append(1, {&token, 1});
               }),
               Contains("nothing can be appended to sequence 1, because the session is on another host"));
    client::Sequence full = SmallEngine::sequence(70, RemoteScheduler::kVocab);
    full.prompt.assign(255, 1);
    session.add(full);
    const std::vector<croupier_column> last = {{70, nullptr, 1, 0}};
    session.submit(last);
    REQUIRE(session.wait(20000));
    CHECK_THAT(failure_of([&] { session.fork(70, 71, 1, 0); }), Contains("no room for another"));
    session.finish(70);
    // A client that resumes finds it.
    scheduler.leave();
    scheduler.open_without_recovery();
    CHECK(scheduler.session().output(50).size() == 5);
    const std::vector<croupier_column> column = {{50, nullptr, 1, 0}};
    for (std::size_t outputs = 6; outputs < 10; ++outputs) {
        scheduler.session().submit(column);
        const auto one = scheduler.session().wait(20000);
        REQUIRE(one);
        CHECK(one->decisions[0].error == 0);
        CHECK(scheduler.session().output(50).size() == outputs);
    }
    scheduler.close();
}

TEST_CASE("through a relay the session's descriptor is readable when a step is decided") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 6);
    scheduler.open();
    stage.start_writer(scheduler.session().segment_path());
    const int descriptor = scheduler.session().event_fd();
    for (int round = 0; round < 50; ++round) {
        // The second submit may read the first step's decisions.
        scheduler.submit(0);
        scheduler.submit(1);
        while (scheduler.session().in_flight() > 0) {
            pollfd readable{descriptor, POLLIN, 0};
            REQUIRE(::poll(&readable, 1, 20000) == 1);
            while (scheduler.session().in_flight() > 0 && scheduler.take_within(0)) continue;
        }
    }
    CHECK(scheduler.tokens() == served_locally(6, 50));
    scheduler.close();
}

TEST_CASE("what is wrong with a call through a relay is told in the call, as by a local session") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 2);
    scheduler.open();
    client::Session& session = scheduler.session();
    auto sequence = SmallEngine::sequence(50, RemoteScheduler::kVocab);
    sequence.prompt.push_back(1000);
    CHECK_THAT(failure_of([&] { session.add(sequence); }), Contains("bad_argument") && Contains("0 to 999"));
    sequence.prompt.assign(256, 1);
    CHECK_THAT(failure_of([&] { session.add(sequence); }), Contains("max_length"));
    CHECK_THAT(failure_of([&] { session.add(SmallEngine::sequence(1, 1000)); }), Contains("is live already"));
    CHECK_THAT(failure_of([&] { session.finish(77); }), Contains("unknown_sequence: sequence 77"));
    CHECK_THAT(failure_of([&] { session.submit({}); }), Contains("a step has 1 to 8 columns"));
    const std::vector<croupier_column> twice = {{1, nullptr, 1, 0}, {1, nullptr, 1, 0}};
    CHECK_THAT(failure_of([&] { session.submit(twice); }), Contains("two columns of one step"));
    const std::vector<std::uint32_t> mask(32, ~0U);
    const std::vector<croupier_column> masked = {{1, mask.data(), 1, 0}};
    CHECK_THAT(failure_of([&] { session.submit(masked); }), Contains("open it with a larger mask_rows"));
    scheduler.submit(0);
    CHECK_THAT(failure_of([&] { session.truncate(1, 1); }), Contains("1 of them cannot be kept"));
    scheduler.submit(1);
    CHECK_THAT(failure_of([&] { scheduler.submit(1); }), Contains("ring_full"));
    stage.start_writer(session.segment_path());
    scheduler.take();
    scheduler.take();
    CHECK(scheduler.tokens() == served_locally(2, 1));
    scheduler.close();
}

TEST_CASE("a session that is taken over on its own host fails the scheduler's next calls with the reason") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    RemoteScheduler scheduler(stage.route(), 2);
    scheduler.open();
    scheduler.submit(0);
    EngineShape shape;
    shape.takeover = true;
    const SmallEngine other(stage.daemon().endpoint(), name_of(scheduler.session()), shape);
    CHECK_THAT(failure_of_waiting(scheduler), Contains("stale_epoch") && Contains("was taken over"));
    CHECK_THAT(failure_of([&] { scheduler.submit(1); }), Contains("stale_epoch"));
}

TEST_CASE("a scheduler neither ends nor resumes a session that another one, or an engine here, has opened") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    SmallEngine local(stage.daemon().endpoint(), "name");
    local.admit(2);
    local.steps(3);
    LastStage other_stage(hosts);
    other_stage.start_relay({"--endpoint", stage.daemon().endpoint()});
    const RelayGroup others(other_stage.route());
    client::OpenOptions options = options_through(others);
    options.name = "name";
    std::optional<client::Session> another(std::in_place, options);
    another->add(SmallEngine::sequence(7, RemoteScheduler::kVocab));
    std::string own_name;
    for (const bool detached : {false, true}) {
        if (detached) another.reset();
        for (const auto& [takeover, resume] : {std::pair(0U, 0U), {1U, 0U}, {0U, 1U}, {1U, 1U}}) {
            const RelayGroup group(stage.route());
            options = options_through(group);
            options.name = "name";
            options.takeover = takeover;
            options.resume = resume;
            client::Session session(options);
            CHECK_FALSE(session.resumed());
            CHECK(session.live().empty());
            own_name = name_of(session);
            session.close();
        }
    }
    CHECK(own_name.starts_with("name@"));
    local.steps(3);
    options = options_through(others);
    options.name = "name";
    options.resume = 1;
    const client::Session again(options);
    CHECK(again.resumed());
    CHECK(again.live() == std::vector<std::uint64_t>{7});
}

TEST_CASE("a session that is opened through a channel continues when an earlier one is detached") {
    const bool takeover = GENERATE(false, true);
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay();
    const RelayGroup group(stage.route());
    const Tokens expected = served_locally(1, 3);
    std::unique_ptr<client::Session> present;
    for (const std::string name : {"first", "second", "third"}) {
        client::OpenOptions options = options_through(group);
        options.name = takeover ? "first" : name.c_str();
        options.takeover = takeover && present ? 1 : 0;
        // As `session = Session(...)` does in Python: the earlier one is detached last.
        present = std::make_unique<client::Session>(options);
        stage.start_writer(present->segment_path());
        present->add(SmallEngine::sequence(1, RemoteScheduler::kVocab));
        const std::vector<croupier_column> columns = {{1, nullptr, 1, 0}};
        for (int i = 0; i < 3; ++i) {
            present->submit(columns);
            const auto step = present->wait(20000);
            REQUIRE(step);
            CHECK(step->decisions[0].error == 0);
        }
        CHECK(present->output(1) == expected.at(1));
        stage.stop_writer();
    }
    // The relay refuses the fenced session once.
    if (!takeover) CHECK(stage.relay_log().find("relay_refused_record") == std::string::npos);
}

TEST_CASE("a relay tells the scheduler that opens why the daemon beside it cannot be asked") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    const Sandbox files;
    stage.start_relay({"--endpoint", "ipc://" + files.directory() + "/nobody.sock"});
    const RelayGroup group(stage.route());
    client::OpenOptions options = options_through(group);
    options.timeout_ms = 200;
    CHECK_THAT(failure_of([&] { client::Session{options}; }),
               Contains("timed_out") && Contains("does croupierd run beside the relay"));
    options.endpoint = "ipc:///run/croupier/control.sock";
    CHECK_THAT(failure_of([&] { client::Session{options}; }),
               Contains("bad_argument") && Contains("endpoint and relay are both given"));
}
