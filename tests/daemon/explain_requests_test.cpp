// Requests to /explain: how they are written, what each is answered, and who waits for whom.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/observation/explain_query.h"
#include "daemon/observation/explain_route.h"
#include "testing/session_files.h"
#include "tests/daemon/explaining.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

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
    CHECK_THAT(page, Contains(is_sound ? "has the id 999999" : "is not valid JSON"));
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
    CHECK_FALSE(shm::CaptureExchange::attach(daemon.shm_directory(), daemon.instance()));
    engine.step();
}

TEST_CASE("a query is parsed, and a malformed one is refused with what would be right") {
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

TEST_CASE("a request for an unknown session or sequence is refused with a list of those that exist") {
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

TEST_CASE("a request waits for a sequence that has no decision yet, and holds up nothing else") {
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

TEST_CASE("the number of unread answers is bounded, and dropping one makes room for another") {
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

TEST_CASE("a request whose client hangs up is dropped") {
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
