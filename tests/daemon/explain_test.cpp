// /explain: the next decision of a sequence, on request, as `croupier explain` shows it.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/explain_query.h"
#include "daemon/explain_route.h"
#include "explain/case.h"
#include "explain/decider.h"
#include "shm/capture_desk.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/loopback.h"
#include "tests/daemon/poison.h"
#include "tools/status/cleanup.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

std::string metrics_section(std::uint16_t port, const std::string& more) {
    return "metrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"" + more + "}";
}

struct Asked {
    std::future<std::string> answer;
    // Headers first.
    std::string get() { return answer.get(); }
    nlohmann::json json() {
        const std::string text = get();
        CHECK_THAT(text, StartsWith("HTTP/1.1 200 OK") && Contains("Content-Type: application/json"));
        return nlohmann::json::parse(text.substr(text.find("\r\n\r\n") + 4));
    }
};

// A daemon that explains.
struct Explaining {
    explicit Explaining(const std::string& samplers = kTwoSamplers, const std::string& more = "",
                        const std::string& program = CROUPIERD_PATH)
        : daemon(samplers, metrics_section(port, ", explain: true" + more), program) {}

    // Returns when the samplers are asked.
    Asked ask(const std::string& query) const {
        const auto desk = shm::CaptureDesk::attach(daemon.shm_directory(), daemon.instance());
        REQUIRE(desk);
        const auto& asked = desk.value().words().asked;
        REQUIRE(eventually([&] { return asked.load() == 0; }));
        Asked made = ask_only(query);
        REQUIRE(eventually([&] { return asked.load() != 0; }));
        return made;
    }
    Asked ask_only(const std::string& query) const {
        return {std::async(std::launch::async, http_get, port, "/explain?" + query)};
    }
    Asked ask(std::uint64_t uid, const std::string& more = "&format=json") const {
        return ask("session=engine&uid=" + std::to_string(uid) + more);
    }
    std::string get(const std::string& query) const { return http_get(port, "/explain?" + query); }
    bool nothing_is_asked() const {
        const auto desk = shm::CaptureDesk::attach(daemon.shm_directory(), daemon.instance());
        return desk && desk.value().words().asked.load() == 0;
    }
    bool has_captured() const {
        return std::filesystem::exists(
            shm::CaptureDesk::paths(daemon.shm_directory(), daemon.instance()).back());
    }

    std::uint16_t port = free_port();
    DaemonProcess daemon;
};

// The request's answer, by both ways to decide, is the token that the daemon decided.
void check_explained(const nlohmann::json& request, std::int32_t token, std::size_t position) {
    explain::RowFiles files;
    explain::Decider decider;
    const explain::Case of = explain::read_case(request, files);
    CHECK(of.decided->token == token);
    CHECK(of.output.size() == position);
    const explain::Asked asked(of, 0, 0);
    for (const auto impl : {explain::Impl::fast, explain::Impl::reference})
        CHECK(decider.decide(of.row.view(), asked.request(), impl).decision.token == token);
}

// One sequence after the other is asked for, each in a step of its own.
void explain_all(const Explaining& explaining, SmallEngine& engine) {
    for (const std::uint64_t uid : engine.session().live()) {
        INFO("sequence " << uid);
        Asked asked = explaining.ask(uid);
        engine.step();
        const auto& stream = engine.streams().at(uid);
        check_explained(asked.json(), stream.back(), stream.size() - 1);
    }
    CHECK_FALSE(explaining.has_captured());
}

client::Sequence with_all(std::uint64_t uid, std::uint32_t vocab) {
    client::Sequence made = SmallEngine::sequence(uid, vocab);
    switch (uid % 10) {
        case 0:
            made.params.mirostat = 1;
            break;
        case 1:
            made.params.mirostat = 2;
            made.params.mirostat_tau = 3.0;
            break;
        case 2:
            made.params.adaptive_target = 0.3;
            break;
        case 3:
            made.params.rng = CROUPIER_RNG_SGLANG;
            made.params.child = 0;
            break;
        case 4:
            made.params.rng = CROUPIER_RNG_VLLM;
            break;
        case 5:
            // One token, and in this order: 0.1 is no sum of halves.
            made.bias = {{7, 0.1F}, {9, -3.0F}, {7, 0.7F}, {7, -0.3F}};
            made.params.child = 3;
            made.params.dry_multiplier = 2.0;
            made.dry_breakers = {1, 9, 2, 5, 6};
            break;
        case 6:
            made.allowed_ids = {3, 50, 90, 17, 400};
            made.stop_ids = {50, 3};
            made.params.min_tokens = 100;
            break;
        case 7:
            made.bad_words = {1, 90, 2, 7, 7};
            made.params.xtc_probability = 0.7;
            made.params.flags |= CROUPIER_IGNORE_EOS;
            made.params.eos_token_id = 5;
            break;
        case 8:
            made.params.order[0] = CROUPIER_ORDER_TOP_P;
            made.params.order[1] = CROUPIER_ORDER_TEMPERATURE;
            made.params.top_p = 0.4;
            break;
        default:
            made.params.rng = CROUPIER_RNG_SHVS;
            made.params.top_k = 0;
            made.params.top_p = 1.0;
            break;
    }
    return made;
}

void admit_all(SmallEngine& engine, const EngineShape& shape) {
    for (std::uint64_t uid = 1; uid <= shape.batch; ++uid) engine.admit(with_all(uid, shape.vocab));
}

EngineShape shape_of(std::uint32_t tp) {
    EngineShape shape;
    shape.tp = tp;
    shape.batch = 10;
    return shape;
}

void order_blocks(EngineShape& shape) {
    const std::uint32_t blocks = proto::blocks_of(shape.vocab);
    for (std::uint32_t i = blocks; i-- > 0;) shape.order.push_back(i);
}

}  // namespace

TEST_CASE(
    "what /explain gives decides the daemon's token, over controls, ranks, masks, summaries and tiles") {
    const Explaining explaining;
    EngineShape shape = shape_of(GENERATE(1U, 2U, 3U));
    shape.masked = GENERATE(false, true);
    shape.summaries = shape.tp == 2;
    shape.tile = shape.tp == 3 ? 32 : 64;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    admit_all(engine, shape);
    engine.steps(3);
    explain_all(explaining, engine);
}

TEST_CASE("what /explain gives decides the daemon's token where rows stay with their writers") {
    const Explaining explaining(GENERATE("{count: 1}", "{count: 3, threads_per_sampler: 2}"));
    EngineShape shape = shape_of(GENERATE(1U, 2U));
    shape.vocab = 20000;
    shape.lean = true;
    if (shape.tp == 2) order_blocks(shape);
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    admit_all(engine, shape);
    // Drawn by its writer: nobody would ask for its row.
    client::Sequence drawn = SmallEngine::sequence(8, shape.vocab);
    drawn.uid = 11;
    drawn.params.temperature = 0.9;
    drawn.params.top_p = 1.0;
    drawn.params.flags |= CROUPIER_NO_LOGPROB;
    engine.finish(8);
    engine.steps(2);
    engine.admit(drawn);
    Asked asked = explaining.ask(11);
    engine.submit();
    engine.write();
    engine.collect();
    const auto request = asked.json();
    CHECK(request.at("decided").at("path") == "drawn");
    check_explained(request, engine.streams().at(11).back(), 0);
    explain_all(explaining, engine);
}

TEST_CASE("what /explain gives decides the daemon's token with a hot set, an order and a writer's randoms") {
    const Explaining explaining(kTwoSamplers, "}\nhot_set: {size: 256");
    EngineShape shape = shape_of(2);
    shape.vocab = 4000;
    shape.randoms_supplied = true;
    shape.hot_size = 256;
    order_blocks(shape);
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence made = SmallEngine::sequence(uid, shape.vocab);
        made.params.top_k = 0;
        made.params.top_p = 1.0;
        made.params.temperature = 0.7 + 0.2 * static_cast<double>(uid);
        engine.admit(made);
    }
    engine.step();
    explain_all(explaining, engine);
}

TEST_CASE("the page is the one of croupier explain, and no cache or other page gets it") {
    const std::string tokenizer = std::filesystem::temp_directory_path() /
                                  ("croupier-tokenizer-" + std::to_string(::getpid()) + ".json");
    nlohmann::json vocabulary = nlohmann::json::object();
    for (int id = 0; id < 1000; ++id) vocabulary["<w" + std::to_string(id) + ">"] = id;
    std::ofstream(tokenizer) << nlohmann::json{{"model", {{"vocab", vocabulary}}}};
    const Explaining explaining(kTwoSamplers, ", tokenizer: \"" + tokenizer + "\"");
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(3);
    Asked asked = explaining.ask(2, "");
    engine.step();
    const std::string page = asked.get();
    const std::string token = std::to_string(engine.streams().at(2).back());
    CHECK_THAT(page, StartsWith("HTTP/1.1 200 OK") && Contains("Content-Type: text/html; charset=utf-8") &&
                         Contains("Cache-Control: no-store") && Contains("default-src 'none'"));
    CHECK_THAT(page, Contains("Why token " + token + ", &quot;&lt;w" + token + "&gt;&quot;?"));
    CHECK_THAT(page, Contains("in step 0 it decided the same token"));
    // Its prompt: 62, 79, 96 and so on.
    CHECK_THAT(page, Contains("&lt;w62&gt;&lt;w79&gt;&lt;w96&gt;"));
    std::filesystem::remove(tokenizer);
}

TEST_CASE("a tokenizer that cannot be read, or is another model's, costs the texts and no page") {
    const std::string tokenizer =
        std::filesystem::temp_directory_path() / ("croupier-other-" + std::to_string(::getpid()) + ".json");
    const bool is_sound = GENERATE(false, true);
    std::ofstream(tokenizer) << (is_sound ? R"({"model": {"vocab": {"far": 999999}}})" : "{");
    const Explaining explaining(kTwoSamplers, ", tokenizer: \"" + tokenizer + "\"");
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(1);
    Asked asked = explaining.ask(1, "");
    engine.step();
    const std::string page = asked.get();
    CHECK_THAT(page, StartsWith("HTTP/1.1 200 OK") && Contains("Tokens are shown without their texts"));
    CHECK_THAT(page, Contains(is_sound ? "has the id 999999" : "is no JSON"));
    CHECK(explaining.daemon.says("tokens without their texts") == !is_sound);
    std::filesystem::remove(tokenizer);
}

TEST_CASE("a daemon that is not told to explain does not, and keeps nothing for it") {
    const std::uint16_t port = free_port();
    const DaemonProcess daemon(kTwoSamplers, metrics_section(port, ""));
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(2);
    const std::size_t files = daemon.files_in_shm();
    CHECK_THAT(http_get(port, "/explain?session=engine&uid=1"),
               StartsWith("HTTP/1.1 403 Forbidden") && Contains("metrics.explain: true"));
    CHECK(daemon.files_in_shm() == files);
    CHECK_FALSE(shm::CaptureDesk::attach(daemon.shm_directory(), daemon.instance()));
    engine.step();
}

TEST_CASE("a query is read as it is written, and one that is wrong says how it would be right") {
    const auto asked = daemon::parse_explain_query("session=a%20b%2F+c&uid=18446744073709551615&format=json");
    REQUIRE(asked);
    CHECK(asked.value().session == "a b/ c");
    CHECK(asked.value().uid == 18446744073709551615ULL);
    CHECK(asked.value().as_json);
    const std::pair<std::string, const char*> wrong[] = {
        {"", "session is missing"},
        {"uid=1", "session is missing"},
        {"session=a", "uid is missing"},
        {"session=a&uid=", "uid is ''"},
        {"session=a&uid=-1", "uid is '-1'"},
        {"session=a&uid=1x", "uid is '1x'"},
        {"session=a&uid=18446744073709551616", "uid is '18446744073709551616'"},
        {"session=a&uid=1&uid=2", "'uid' stands there twice"},
        {"session=a&uid", "'uid' has no value"},
        {"session=a&uid=1&format=xml", "format is 'xml'; allowed: html or json"},
        {"session=a&uid=1&wait=1", "'wait' is not known; known: session, uid, format"},
        {"session=%&uid=1", "a % without two digits"},
        {"session=%4&uid=1", "a % without two digits"},
        {"session=%zz&uid=1", "a % without two digits"},
        {"session=a&uid=%1b[31m", "uid is '\\x1b[31m'"},
        {"session=a&u\xff%0d%0aSet-Cookie:x=1&uid=1", "'u\\xff\\x0d\\x0aSet-Cookie:x' is not known"},
        {"session=a&uid=" + std::string(500, '9'), "999..."},
    };
    for (const auto& [query, fault] : wrong) {
        INFO(query);
        const auto parsed = daemon::parse_explain_query(query);
        REQUIRE_FALSE(parsed);
        CHECK_THAT(parsed.error().message, Contains(fault) && Contains("as in /explain?session="));
    }
}

TEST_CASE("who asks for what is not there is told so, and what there is") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(7);
    CHECK_THAT(explaining.get(""), StartsWith("HTTP/1.1 400 Bad Request") && Contains("session is missing"));
    CHECK_THAT(explaining.get("session=other&uid=1"),
               StartsWith("HTTP/1.1 404") && Contains("there is no session 'other'") && Contains("'engine'"));
    CHECK_THAT(explaining.get("session=%0d%0aX-Evil:1&uid=1"),
               StartsWith("HTTP/1.1 404") && Contains("'\\x0d\\x0aX-Evil:1'") && !Contains("\nX-Evil"));
    CHECK_THAT(
        explaining.get("session=engine&uid=99"),
        StartsWith("HTTP/1.1 404") && Contains("has no live sequence 99; it has: 1, 2, 3, 4, 5 and 2 more"));
    CHECK_THAT(explaining.get("session=engine&uid=99&format=json"),
               Contains("{\"error\":\"session 'engine'"));
    CHECK_THAT(http_get(explaining.port, "/explain"), StartsWith("HTTP/1.1 400"));
    CHECK_THAT(http_get(explaining.port, "/explained"),
               StartsWith("HTTP/1.1 404") && Contains(" /explain\n"));
    CHECK_THAT(http_exchange(explaining.port, "POST /explain?session=engine&uid=1 HTTP/1.1\r\n\r\n"),
               StartsWith("HTTP/1.1 405") && Contains("Allow: GET, HEAD"));
    CHECK(explaining.daemon.says("event=explains_decisions"));
    CHECK(explaining.nothing_is_asked());
    engine.step();
}

TEST_CASE("a session is found by its id too") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(2);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    Asked asked = explaining.ask("uid=1&format=json&session=" + std::to_string(segment.value().id()));
    engine.step();
    check_explained(asked.json(), engine.streams().at(1).back(), 0);
}

TEST_CASE("a sequence of which nothing is decided is waited for, and nothing else waits with it") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(4);
    const bool in_flight = GENERATE(false, true);
    if (in_flight) engine.submit();
    Asked asked = explaining.ask(3);
    CHECK_THAT(http_get(explaining.port, "/metrics"), StartsWith("HTTP/1.1 200 OK"));
    CHECK_THAT(http_get(explaining.port, "/livez"), StartsWith("HTTP/1.1 200 OK"));
    const std::string answer = asked.get();
    CHECK_THAT(answer, StartsWith("HTTP/1.1 504") && Contains("sequence 3 of session 'engine' lives"));
    CHECK_THAT(answer, Contains(in_flight ? "1 step is in flight" : "no step of the session is in flight"));
    CHECK(explaining.nothing_is_asked());
    // It is over: nobody copies anything now.
    if (!in_flight) engine.submit();
    engine.write();
    engine.collect();
    CHECK_FALSE(explaining.has_captured());
}

TEST_CASE("a sequence or a session that ends while it is waited for is said to have ended") {
    const Explaining explaining;
    std::optional<SmallEngine> engine(std::in_place, explaining.daemon.endpoint(), "engine");
    engine->admit(3);
    engine->step();
    SECTION("the sequence") {
        Asked asked = explaining.ask(2);
        engine->finish(2);
        engine->step();
        CHECK_THAT(asked.get(),
                   StartsWith("HTTP/1.1 404") && Contains("sequence 2 of session 'engine' ended"));
    }
    SECTION("the session") {
        Asked asked = explaining.ask(2);
        engine->session().close();
        CHECK_THAT(asked.get(), StartsWith("HTTP/1.1 404") && Contains("session 'engine' ended"));
    }
}

TEST_CASE("the decision that ends its sequence is explained") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    for (std::uint64_t uid = 1; uid <= 10; ++uid) {
        client::Sequence last = SmallEngine::sequence(uid, EngineShape().vocab);
        last.params.max_tokens = 1;
        engine.admit(last);
        Asked asked = explaining.ask(uid);
        engine.step();
        engine.finish(uid);
        check_explained(asked.json(), engine.streams().at(uid).back(), 0);
    }
}

TEST_CASE("requests wait for one another, each gets a decision of its own, and too many are refused") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(4);
    Asked first = explaining.ask(1);
    Asked second = explaining.ask_only("session=engine&uid=1&format=json");
    engine.step();
    check_explained(first.json(), engine.streams().at(1).back(), 0);
    REQUIRE(eventually([&] { return !explaining.nothing_is_asked(); }));
    engine.step();
    check_explained(second.json(), engine.streams().at(1).back(), 1);
    std::vector<Asked> many;
    many.reserve(21);
    many.push_back(explaining.ask(1));
    for (int i = 0; i < 20; ++i) many.push_back(explaining.ask_only("session=engine&uid=1"));
    int refused = 0;
    // Those that wait are given a decision each, or their time.
    std::size_t open = many.size();
    while (open > 0) {
        engine.step();
        for (Asked& each : many) {
            using namespace std::chrono_literals;
            if (!each.answer.valid() || each.answer.wait_for(0s) != std::future_status::ready) continue;
            const std::string answer = each.get();
            --open;
            if (answer.starts_with("HTTP/1.1 503")) ++refused;
            if (!answer.starts_with("HTTP/1.1 503")) CHECK_THAT(answer, StartsWith("HTTP/1.1 200"));
        }
    }
    CHECK(refused > 0);
    CHECK(refused <= 12);
}

TEST_CASE("HEAD has the headers of an explanation, without the body") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(1);
    const int fd =
        http_send(explaining.port, "HEAD /explain?session=engine&uid=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    REQUIRE(eventually([&] { return !explaining.nothing_is_asked(); }));
    engine.step();
    const std::string head = http_rest(fd);
    CHECK_THAT(head, StartsWith("HTTP/1.1 200 OK") && EndsWith("\r\n\r\n"));
    CHECK_THAT(head, Contains("Content-Type: text/html") && !Contains("Content-Length: 0"));
    CHECK(body_of(head).empty());
}

TEST_CASE("answers that nobody reads are bounded, and one that is let go of makes room") {
    const ShmDirectory directory;
    const auto route = daemon::ExplainRoute::start(directory.path(), "unread", "");
    REQUIRE(route);
    const daemon::HttpRequest request{"GET", "/explain", "session=engine&uid=1"};
    std::vector<std::unique_ptr<daemon::LateReply>> unread;
    for (int i = 0; i < 16; ++i) {
        unread.push_back(route.value()->ask(request).later);
        REQUIRE(unread.back() != nullptr);
        // There is no daemon.
        std::optional<daemon::HttpReply> reply;
        REQUIRE(eventually([&] { return (reply = unread.back()->take()).has_value(); }));
        CHECK(reply->status >= 400);
    }
    const daemon::HttpReply refused = route.value()->ask(request);
    CHECK(refused.status == 503);
    CHECK_THAT(refused.body, Contains("do not read theirs"));
    CHECK(refused.later == nullptr);
    unread.pop_back();
    CHECK(route.value()->ask(request).later != nullptr);
}

TEST_CASE("who hangs up is not waited for") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(2);
    const int fd = http_send(explaining.port, get_request("/explain?session=engine&uid=1"));
    REQUIRE(eventually([&] { return !explaining.nothing_is_asked(); }));
    ::close(fd);
    // Before its time is over: the next one does not wait for it.
    Asked next = explaining.ask(2);
    engine.step();
    check_explained(next.json(), engine.streams().at(2).back(), 0);
}

TEST_CASE("of several steps in flight the first is explained") {
    const Explaining explaining;
    EngineShape shape;
    shape.steps_in_flight = 4;
    SmallEngine engine(explaining.daemon.endpoint(), "engine", shape);
    engine.admit(3);
    engine.step();
    std::vector<std::uint64_t> steps;
    steps.reserve(3);
    for (int i = 0; i < 3; ++i) steps.push_back(engine.submit());
    Asked asked = explaining.ask(2);
    for (int i = 0; i < 3; ++i) engine.write();
    for (int i = 0; i < 3; ++i) engine.collect();
    const auto request = asked.json();
    CHECK(request.at("decided").at("step") == steps.front());
    check_explained(request, engine.streams().at(2).at(1), 1);
}

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
        CHECK(asked.get().empty());
        CHECK(explaining.daemon.files_in_shm() == 0);
    }
    SECTION("it is killed, and another follows") {
        const auto desk =
            shm::CaptureDesk::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
        explaining.daemon.kill_now();
        CHECK(asked.get().empty());
        // As a sampler may have left it in the meantime.
        const std::vector<std::byte> captured(64);
        REQUIRE(desk.value().leave(captured));
        explaining.daemon.start();
        REQUIRE(explaining.daemon.await_ready());
        CHECK_FALSE(explaining.has_captured());
        Asked again = explaining.ask(1);
        engine->step();
        check_explained(again.json(), engine->streams().at(1).back(), 0);
    }
    SECTION("it is killed, and somebody cleans up") {
        const auto desk =
            shm::CaptureDesk::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
        engine.reset();
        explaining.daemon.kill_now();
        CHECK(asked.get().empty());
        const std::vector<std::byte> captured(64);
        REQUIRE(desk.value().leave(captured));
        REQUIRE(eventually([&] {
            const auto cleaned =
                tools::clean_up(explaining.daemon.shm_directory(), explaining.daemon.instance());
            return cleaned && cleaned.value().kept.empty();
        }));
        CHECK(explaining.daemon.files_in_shm() == 0);
    }
}

TEST_CASE("what an earlier request's sampler left too late is nobody's answer") {
    const Explaining explaining;
    SmallEngine engine(explaining.daemon.endpoint(), "engine");
    engine.admit(2);
    const auto desk =
        shm::CaptureDesk::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
    const std::vector<std::byte> late(sizeof(proto::CapturedHead) + 4);
    REQUIRE(desk.value().leave(late));
    Asked asked = explaining.ask(1);
    engine.step();
    check_explained(asked.json(), engine.streams().at(1).back(), 0);
}

TEST_CASE("only the daemon's user can open what is captured") {
    const Explaining explaining;
    for (const std::string& path :
         shm::CaptureDesk::paths(explaining.daemon.shm_directory(), explaining.daemon.instance())) {
        if (!std::filesystem::exists(path)) continue;
        const auto mode = std::filesystem::status(path).permissions();
        CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    }
    const auto desk =
        shm::CaptureDesk::attach(explaining.daemon.shm_directory(), explaining.daemon.instance());
    const std::vector<std::byte> captured(8);
    REQUIRE(desk.value().leave(captured));
    const std::string path =
        shm::CaptureDesk::paths(explaining.daemon.shm_directory(), explaining.daemon.instance()).back();
    CHECK(std::filesystem::status(path).permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    // Nobody is told of it, and a second one is no replacement.
    CHECK_FALSE(desk.value().leave(captured));
    CHECK(desk.value().take().value()->size() == 8);
    CHECK_FALSE(desk.value().take().value());
}
