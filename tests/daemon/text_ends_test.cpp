// JSON values and loops that end sequences, through the daemon: every decision and every released byte is
// compared with a parser of the whole text (testing/text_reference.h) and with the reference's decision.
#include <catch2/catch.hpp>
#include <csignal>
#include <random>

#include "testing/daemon_process.h"
#include "testing/random_json.h"
#include "testing/small_engine.h"
#include "tests/daemon/lean_deaths.h"
#include "tests/daemon/text_script.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kVocab = 1000;

EngineShape with_json() {
    EngineShape shape;
    // The last ids have no token.
    shape.pieces = json_pieces(kVocab - 40);
    return shape;
}

// Few ids are allowed, so that loops are common and values often go on.
client::Sequence random_sequence(std::uint64_t uid, std::mt19937_64& random) {
    client::Sequence made = SmallEngine::with_state(uid, kVocab);
    if (random() % 4 != 0) made.params.flags |= CROUPIER_STOP_AT_JSON;
    if (random() % 3 != 0) {
        made.params.loop_max_period = static_cast<std::uint16_t>(1 + random() % 6);
        made.params.loop_min_period =
            static_cast<std::uint16_t>(random() % (made.params.loop_max_period + 1U));
        made.params.loop_count = static_cast<std::uint8_t>(2 + random() % 2);
    }
    for (std::uint64_t count = random() % 3; count > 0; --count)
        made.stop_strings.push_back(std::array{"\"a", "]", "1 ", "}\n", "\uFFFD", "ab"}[random() % 6]);
    if (random() % 3 == 0) made.params.flags |= CROUPIER_INCLUDE_STOP;
    if (random() % 3 == 0) made.params.min_tokens = 1 + static_cast<std::uint32_t>(random() % 6);
    if (random() % 4 == 0) made.params.eos_token_id = static_cast<std::int32_t>(random() % 40);
    if (random() % 8 == 0) made.params.flags |= CROUPIER_IGNORE_EOS;
    if (random() % 5 == 0) made.params.max_tokens = 8 + static_cast<std::uint32_t>(random() % 20);
    // Some of these are values by themselves.
    if (random() % 2 == 0) made.allowed_ids.push_back(2 + static_cast<std::int32_t>(random() % 6));
    const std::uint64_t most = random() % 2 == 0 ? 3 : 20;
    for (std::uint64_t count = 2 + random() % most; count > 0; --count)
        made.allowed_ids.push_back(static_cast<std::int32_t>(random() % (random() % 4 == 0 ? kVocab : 43)));
    return made;
}

struct Ends {
    std::size_t strings = 0, values = 0, loops = 0;
    void count(const SmallEngine& engine) {
        for (const auto& [uid, decisions] : engine.decisions()) {
            for (const croupier_decision& decision : decisions) {
                strings += (decision.flags & CROUPIER_STOPPED_STRING) != 0 ? 1 : 0;
                values += (decision.flags & CROUPIER_STOPPED_JSON) != 0 ? 1 : 0;
                loops += (decision.flags & CROUPIER_STOPPED_LOOP) != 0 ? 1 : 0;
            }
        }
    }
};

unsigned stopped(const croupier_decision& decision) {
    return decision.flags & CROUPIER_STOPPED;
}

client::Sequence at_json() {
    client::Sequence made = SmallEngine::sequence(4, kVocab);
    made.params.flags |= CROUPIER_STOP_AT_JSON;
    return made;
}

client::Sequence at_loops(std::uint16_t longest, std::uint8_t count, std::uint16_t shortest = 0) {
    client::Sequence made = SmallEngine::sequence(4, kVocab);
    made.params.loop_max_period = longest;
    made.params.loop_min_period = shortest;
    made.params.loop_count = count;
    return made;
}

}  // namespace

TEST_CASE("JSON values and loops end sequences where a search in the whole output finds them") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_json();
    shape.lean = GENERATE(false, true);
    shape.tp = GENERATE(1U, 2U);
    shape.decisions_over_zmq = shape.lean != (shape.tp == 1);
    std::mt19937_64 random(31 + shape.tp);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(random_sequence(uid, random));
    for (std::uint64_t uid = 9; uid < 120; ++uid) {
        engine.steps(2);
        engine.finish(uid - 8);
        engine.admit(random_sequence(uid, random));
    }
    Ends ends;
    ends.count(engine);
    CHECK(ends.strings > 20);
    CHECK(ends.values > 20);
    CHECK(ends.loops > 20);
}

TEST_CASE("truncated, forked and returning sequences end with their JSON values and loops") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_json();
    shape.batch = 24;
    shape.max_sequences = 24;
    shape.lean = GENERATE(false, true);
    std::mt19937_64 random(32);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(random_sequence(uid, random));
    for (int round = 0; round < 100; ++round) {
        engine.steps(static_cast<int>(1 + random() % 4));
        const std::uint64_t uid = 1 + random() % 8;
        if (round % 2 == 0) {
            engine.finish(uid);
            engine.admit(random_sequence(uid, random));
            continue;
        }
        const auto outputs = static_cast<std::uint32_t>(engine.streams().at(uid).size());
        engine.truncate(uid, static_cast<std::uint32_t>(outputs - random() % std::min(outputs + 1, 70U)));
        if (round % 4 == 1) {
            const std::vector<std::int32_t> tokens = {static_cast<std::int32_t>(random() % 43),
                                                      static_cast<std::int32_t>(random() % 43)};
            engine.append(uid, tokens);
        }
        if (round % 8 != 7) continue;
        const std::uint64_t child = 100 + static_cast<std::uint64_t>(round);
        const std::uint64_t parent = 1 + random() % 8;
        const auto from = static_cast<std::uint32_t>(engine.streams().at(parent).size());
        engine.fork(parent, child, static_cast<std::uint32_t>(random() % (from + 1)), 3);
    }
    Ends ends;
    ends.count(engine);
    CHECK(ends.values > 10);
    CHECK(ends.loops > 10);
}

TEST_CASE("JSON values and loops are found whoever dies, and a client that resumes knows what ended a text") {
    DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_json();
    shape.lean = GENERATE(false, true);
    shape.resume = true;
    std::mt19937_64 random(33);
    std::map<std::uint64_t, client::Sequence> asked;
    // No feedback, which an engine that comes later does not know.
    const auto make = [&](std::uint64_t uid) {
        client::Sequence made = random_sequence(uid, random);
        made.params.mirostat = 0;
        made.params.adaptive_target = -1.0;
        return asked[uid] = made;
    };
    auto engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine->admit(make(uid));
    Ends ends;
    for (std::uint32_t round = 0; round < 24; ++round) {
        engine->steps(1);
        engine->submit();
        kill_in_round(daemon, round);
        engine->write();
        engine->collect();
        if (round % 4 != 3) continue;
        std::map<std::uint64_t, std::string> texts;
        std::map<std::uint64_t, unsigned> flags;
        for (const auto& [uid, decisions] : engine->decisions()) {
            if (!asked.contains(uid)) continue;
            texts[uid] = engine->session().text(uid);
            flags[uid] = stopped(decisions.back()) & (CROUPIER_STOPPED_STRING | CROUPIER_STOPPED_JSON);
        }
        ends.count(*engine);
        engine.reset();
        engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine", shape);
        for (const auto& [uid, sequence] : asked) {
            const auto stop = engine->session().text_stop(uid);
            const bool otherwise = flags[uid] == 0;
            CHECK((otherwise || (stop && stop->flag == flags[uid])));
            if (!otherwise) CHECK(engine->session().text(uid) == texts[uid]);
            engine->know(sequence);
        }
        for (std::uint64_t uid = 1 + round / 4 * 4; uid <= 4 + round / 4 * 4; ++uid) {
            engine->finish(uid);
            asked.erase(uid);
            engine->admit(make(uid + 8));
        }
    }
    ends.count(*engine);
    CHECK(ends.values > 5);
    CHECK(ends.loops > 5);
}

TEST_CASE("a decision says where its JSON value begins and ends, whatever is behind it in the token") {
    const DaemonProcess daemon;
    const Pieces pieces = {"",     " \n{\"a\"", ":[1, 2",   "]} Done.", "12",
                           "3\n4", "x",         "\xE2\x82", "\"\xAC",   "\""};
    Script script(daemon, pieces);
    croupier_decision last = script.decide(at_json(), {1, 2, 3});
    CHECK(stopped(last) == CROUPIER_STOPPED_JSON);
    CHECK(last.stop_begin == 2);
    CHECK(last.text_bytes == 14);
    CHECK(script.text() == " \n{\"a\":[1, 2]}");
    // A number ends before the byte behind it, which include_stop does not show either.
    client::Sequence number = at_json();
    number.params.flags |= CROUPIER_INCLUDE_STOP;
    last = script.decide(number, {4, 5});
    CHECK(stopped(last) == CROUPIER_STOPPED_JSON);
    CHECK(script.text() == "123");
    CHECK(last.stop_begin == 0);

    SECTION("text that is not JSON goes on") {
        CHECK(stopped(script.decide(at_json(), {6, 1, 2, 3})) == 0);
        CHECK(script.text() == "x \n{\"a\":[1, 2]} Done.");
        CHECK(stopped(script.decide(at_json(), {4, 6, 5})) == 0);
    }
    SECTION("an id without text, and bytes that are not UTF-8, may stand in a string") {
        CHECK(stopped(script.decide(at_json(), {0, 9, 7, 0, 6})) == 0);
        last = script.decide(at_json(), {9, 7, 6, 9});
        CHECK(stopped(last) == CROUPIER_STOPPED_JSON);
        CHECK(script.text() == "\"\uFFFDx\"");
    }
    SECTION("a quote within an unfinished character ends the string") {
        // The text is the same for a sampler that begins there.
        last = script.decide(at_json(), {9, 7, 8});
        CHECK(stopped(last) == CROUPIER_STOPPED_JSON);
        CHECK(script.text() == "\"\uFFFD\"");
    }
    SECTION("ends by ids come first, and within min_tokens a value is passed over") {
        client::Sequence made = at_json();
        made.stop_ids = {3};
        CHECK(stopped(script.decide(made, {1, 2, 3})) == CROUPIER_STOPPED_TOKEN);
        CHECK(script.text() == " \n{\"a\":[1, 2");
        made.stop_ids = {};
        made.params.eos_token_id = 3;
        CHECK(stopped(script.decide(made, {1, 2, 3})) == CROUPIER_STOPPED_EOS);
        made.params.flags |= CROUPIER_IGNORE_EOS;
        CHECK(stopped(script.decide(made, {1, 2, 3})) == CROUPIER_STOPPED_JSON);
        made.params.max_tokens = 3;
        CHECK(stopped(script.decide(made, {1, 2, 3})) == CROUPIER_STOPPED_LENGTH);
        CHECK(script.text() == " \n{\"a\":[1, 2]} Done.");
        made.params.max_tokens = 0;
        made.params.eos_token_id = -1;
        made.params.min_tokens = 3;
        CHECK(stopped(script.decide(made, {1, 2, 3})) == 0);
    }
    SECTION("a stop string within the value ends the text before it") {
        client::Sequence made = at_json();
        made.stop_strings = {"[1"};
        last = script.decide(made, {1, 2, 3});
        CHECK(stopped(last) == CROUPIER_STOPPED_STRING);
        CHECK(last.stop_begin == 7);
        made.stop_strings = {"Done"};
        CHECK(stopped(script.decide(made, {1, 2, 3})) == CROUPIER_STOPPED_JSON);
    }
    SECTION("the prompt's text does not count") {
        client::Sequence made = at_json();
        made.prompt = {1};
        CHECK(stopped(script.decide(made, {2, 3})) == 0);
    }
}

TEST_CASE("a tail that stands loop_count times in a row ends the output") {
    const DaemonProcess daemon;
    const Pieces pieces = {"a", "b", "c", "\xE2\x82"};
    Script script(daemon, pieces);
    CHECK(stopped(script.decide(at_loops(1, 3), {0, 1, 1, 1})) == CROUPIER_STOPPED_LOOP);
    CHECK(stopped(script.decide(at_loops(1, 3), {0, 1, 1, 0, 1})) == 0);
    CHECK(stopped(script.decide(at_loops(3, 2), {2, 0, 1, 2, 0, 1})) == CROUPIER_STOPPED_LOOP);
    CHECK(stopped(script.decide(at_loops(2, 2), {2, 0, 1, 2, 0, 1})) == 0);
    // Twice "bb" is four times "b".
    CHECK(stopped(script.decide(at_loops(3, 2, 2), {0, 1, 1, 1})) == 0);
    CHECK(stopped(script.decide(at_loops(3, 2, 2), {0, 1, 1, 1, 1})) == CROUPIER_STOPPED_LOOP);
    // All that is left is released, as at any other end.
    CHECK(stopped(script.decide(at_loops(1, 2), {0, 3, 3})) == CROUPIER_STOPPED_LOOP);
    CHECK(script.text() == "a\uFFFD\uFFFD");

    SECTION("the prompt is no part of it") {
        client::Sequence made = at_loops(1, 3);
        made.prompt = {1, 1};
        CHECK(stopped(script.decide(made, {1, 1})) == 0);
    }
    SECTION("within min_tokens it is passed over") {
        client::Sequence made = at_loops(1, 2);
        made.params.min_tokens = 3;
        CHECK(stopped(script.decide(made, {1, 1, 1})) == 0);
        CHECK(stopped(script.decide(made, {1, 1, 1, 1})) == CROUPIER_STOPPED_LOOP);
    }
    SECTION("it comes after other ends by ids, and before the text") {
        client::Sequence made = at_loops(1, 2);
        made.params.flags |= CROUPIER_STOP_AT_JSON;
        made.stop_strings = {"bb"};
        CHECK(stopped(script.decide(made, {1, 1})) == CROUPIER_STOPPED_LOOP);
        CHECK(script.text() == "bb");
        made.params.max_tokens = 2;
        CHECK(stopped(script.decide(made, {1, 1})) == CROUPIER_STOPPED_LENGTH);
        made.params.eos_token_id = 1;
        CHECK(stopped(script.decide(made, {1, 1})) == CROUPIER_STOPPED_EOS);
    }
}

TEST_CASE("an engine leads a sequence out of a loop by appending tokens, and it goes on behind them") {
    const DaemonProcess daemon(kTwoSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", with_json());
    std::mt19937_64 random(34);
    const std::vector<std::int32_t> way_out = {17, 4, 42};
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence made = SmallEngine::sequence(uid, kVocab);
        made.allowed_ids = {1, 2, 3};
        made.params.loop_max_period = 3;
        made.params.loop_count = 2;
        engine.admit(made);
    }
    std::size_t led = 0;
    for (int step = 0; step < 25; ++step) {
        engine.step();
        for (std::uint64_t uid = 1; uid <= 8; ++uid) {
            if (stopped(engine.decisions().at(uid).back()) != CROUPIER_STOPPED_LOOP) continue;
            engine.append(uid, way_out);
            ++led;
        }
    }
    CHECK(led > 20);
}

TEST_CASE("a client that writes stop_at_json where there is no tokenizer harms its own sequence alone") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(4);
    engine.steps(2);
    auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_write);
    const shm::Segment& written = segment.value();
    std::uint32_t slot = 0;
    while (written.sequence(slot).uid != 2) ++slot;
    proto::SamplingParams& params = *written.params(slot).place();
    params.flags |= proto::kStopAtJson;
    engine.expect_error(2, proto::DecisionError::bad_parameter);
    engine.steps(2);
    params.flags &= ~proto::kStopAtJson;
    params.loop_max_period = 4;
    engine.steps(2);
    params.loop_max_period = 0;
    engine.expect_no_error(2);
    engine.steps(2);
}

TEST_CASE("what cannot end a sequence is refused with what would be right") {
    const DaemonProcess daemon;
    EngineShape shape;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    const auto refusal = [&](const client::Sequence& sequence) {
        return failure_of([&] { engine.session().add(sequence); });
    };
    CHECK_THAT(refusal(at_json()),
               Contains("stop_at_json needs a session with a tokenizer: open it with the option tokenizer"));
    CHECK_THAT(refusal(at_loops(257, 2)), Contains("loop_max_period is 257; allowed: 0 to 256"));
    CHECK_THAT(refusal(at_loops(3, 0)), Contains("loop_count is 0; allowed: 2 to 255 with loop_max_period"));
    CHECK_THAT(refusal(at_loops(3, 1)), Contains("loop_count is 1; allowed: 2 to 255 with loop_max_period"));
    CHECK_THAT(refusal(at_loops(3, 2, 4)),
               Contains("loop_min_period is 4; allowed: 0 to 256, at most loop_max"));
    client::Sequence flags = at_loops(256, 16);
    flags.uid = 5;
    CHECK(refusal(flags).empty());
    flags.params.flags = 128;
    CHECK_THAT(refusal(flags), Contains("flags is 128; allowed: the sum of"));
}
