// Stop strings and released text through the daemon: every decision and every released byte is compared with
// a search in the whole text (testing/text_reference.h).
#include <catch2/catch.hpp>
#include <csignal>
#include <random>

#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"
#include "tests/daemon/lean_deaths.h"
#include "tests/daemon/text_script.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kVocab = 1000;

EngineShape with_texts() {
    EngineShape shape;
    // The last ids have no token.
    shape.pieces = small_alphabet_pieces(kVocab - 40);
    return shape;
}

// Short enough that some of them are met within some dozens of tokens.
std::vector<std::string> random_stops(std::mt19937_64& random) {
    static const std::vector<std::string> kParts = {"a", "b", "c", "d", "\u20AC", "\uFFFD"};
    std::vector<std::string> stops(1 + random() % (random() % 4 == 0 ? 16 : 4));
    for (std::string& stop : stops) {
        for (std::uint64_t size = 3 + random() % 6; size > 0; --size)
            stop += kParts[random() % (random() % 3 == 0 ? kParts.size() : 2)];
    }
    // Beginnings and ends of one another.
    if (stops.size() > 2) stops[1] = stops[0] + "a";
    if (stops.size() > 3) stops[2] = stops[0].front() == 'a' ? "b" + stops[0] : stops[0] + "\u20AC";
    return stops;
}

client::Sequence random_sequence(std::uint64_t uid, std::mt19937_64& random) {
    client::Sequence made = SmallEngine::with_state(uid, kVocab);
    made.stop_strings = random_stops(random);
    if (random() % 3 == 0) made.params.flags |= CROUPIER_INCLUDE_STOP;
    if (random() % 3 == 0) made.params.min_tokens = 1 + static_cast<std::uint32_t>(random() % 12);
    if (random() % 4 == 0) made.params.eos_token_id = static_cast<std::int32_t>(random() % kVocab);
    if (random() % 5 == 0) made.params.max_tokens = 8 + static_cast<std::uint32_t>(random() % 40);
    return made;
}

std::size_t count_stops(const SmallEngine& engine) {
    std::size_t count = 0;
    for (const auto& [uid, decisions] : engine.decisions()) {
        for (const croupier_decision& decision : decisions)
            count += (decision.flags & CROUPIER_STOPPED_STRING) != 0 ? 1 : 0;
    }
    return count;
}

std::string refusal_of(SmallEngine& engine, const std::vector<std::string>& stops) {
    client::Sequence made = SmallEngine::sequence(30, kVocab);
    made.stop_strings = stops;
    return failure_of([&] { engine.session().add(made); });
}

}  // namespace

TEST_CASE("stop strings end sequences where a search in the whole text finds them") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_texts();
    shape.lean = GENERATE(false, true);
    shape.tp = GENERATE(1U, 2U);
    shape.decisions_over_zmq = shape.lean != (shape.tp == 1);
    std::mt19937_64 random(11 + shape.tp);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(random_sequence(uid, random));
    engine.steps(60);
    // A sequence that goes on passes over what had ended it, so that it may end many times.
    CHECK(count_stops(engine) > 10);
}

TEST_CASE("truncated, forked and returning sequences search for their stop strings") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_texts();
    shape.batch = 16;
    shape.lean = GENERATE(false, true);
    std::mt19937_64 random(12);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 6; ++uid) engine.admit(random_sequence(uid, random));
    for (int round = 0; round < 30; ++round) {
        engine.steps(static_cast<int>(1 + random() % 5));
        const std::uint64_t uid = 1 + random() % 6;
        const auto outputs = static_cast<std::uint32_t>(engine.streams().at(uid).size());
        // Twice between two decisions, too, so that no sampler knows the revision between.
        engine.truncate(uid, static_cast<std::uint32_t>(outputs - random() % std::min(outputs, 70U)));
        if (round % 3 == 0)
            engine.truncate(uid, static_cast<std::uint32_t>(engine.streams().at(uid).size() / 2));
        if (round % 4 == 1) {
            const std::vector<std::int32_t> tokens = {static_cast<std::int32_t>(random() % kVocab),
                                                      static_cast<std::int32_t>(random() % kVocab)};
            engine.append(uid, tokens);
        }
        if (round % 5 == 0) {
            const std::uint64_t child = 100 + static_cast<std::uint64_t>(round);
            const auto from = static_cast<std::uint32_t>(engine.streams().at(1).size());
            engine.fork(1, child, static_cast<std::uint32_t>(random() % (from + 1)), 3);
        }
    }
    CHECK(count_stops(engine) > 10);
}

TEST_CASE("stop strings are found whoever dies, and text goes on where a client left it") {
    DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = with_texts();
    shape.lean = GENERATE(false, true);
    shape.resume = true;
    std::mt19937_64 random(13);
    std::map<std::uint64_t, client::Sequence> asked;
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        asked[uid] = SmallEngine::sequence(uid, kVocab);
        asked[uid].stop_strings = random_stops(random);
    }
    auto engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine", shape);
    for (const auto& [uid, sequence] : asked) engine->admit(sequence);
    std::size_t stops = 0;
    for (std::uint32_t round = 0; round < 12; ++round) {
        engine->steps(2);
        engine->submit();
        kill_in_round(daemon, round);
        engine->write();
        engine->collect();
        if (round % 4 != 3) continue;
        std::map<std::uint64_t, std::string> texts;
        for (const auto& [uid, sequence] : asked) texts[uid] = engine->session().text(uid);
        std::map<std::uint64_t, bool> stopped;
        for (const auto& [uid, decisions] : engine->decisions())
            stopped[uid] = (decisions.back().flags & CROUPIER_STOPPED_STRING) != 0;
        stops += count_stops(*engine);
        engine.reset();
        engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine", shape);
        for (const auto& [uid, sequence] : asked) {
            CHECK(engine->session().text(uid) == texts[uid]);
            CHECK(engine->session().text_stop(uid).has_value() == stopped[uid]);
            engine->know(sequence);
        }
    }
    CHECK(stops + count_stops(*engine) > 10);
}

TEST_CASE("of what ends a sequence at one token, stop strings come last") {
    const DaemonProcess daemon;
    Pieces pieces(10);
    pieces[1] = "one";
    pieces[2] = "two";
    pieces[3] = "\xE2\x82";
    Script script(daemon, pieces);
    client::Sequence made = SmallEngine::sequence(4, kVocab);
    made.stop_strings = {"two"};

    croupier_decision last = script.decide(made, {1, 2});
    CHECK((last.flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_STRING);
    CHECK(last.stop_string == 0);
    CHECK(last.stop_begin == 3);
    CHECK(script.text() == "one");

    made.params.flags |= CROUPIER_INCLUDE_STOP;
    CHECK(script.decide(made, {1, 2}).stop_begin == 3);
    CHECK(script.text() == "onetwo");
    made.params.flags = 0;

    // The text of a token that ends a sequence by its id is not shown.
    made.params.eos_token_id = 2;
    last = script.decide(made, {1, 3, 2});
    CHECK((last.flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_EOS);
    CHECK(script.text() == "one\uFFFD");
    made.params.eos_token_id = -1;
    made.stop_ids = {2};
    last = script.decide(made, {1, 2});
    CHECK((last.flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_TOKEN);
    CHECK(script.text() == "one");
    made.params.flags |= CROUPIER_INCLUDE_STOP;
    CHECK((script.decide(made, {1, 2}).flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_TOKEN);
    CHECK(script.text() == "onetwo");
    made.params.flags = 0;
    made.stop_ids = {};

    made.params.max_tokens = 2;
    last = script.decide(made, {1, 2});
    CHECK((last.flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_LENGTH);
    CHECK(script.text() == "onetwo");
    CHECK((script.decide(made, {1, 3}).flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_LENGTH);
    CHECK(script.text() == "one\uFFFD");
}

TEST_CASE("the string that is complete first ends the text, also within one long token") {
    const DaemonProcess daemon;
    Pieces pieces(10);
    pieces[1] = std::string(120, 'x') + "middle" + std::string(100, 'y') + "end" + std::string(27, 'z');
    pieces[2] = "e";
    pieces[3] = "nd";
    Script script(daemon, pieces);
    client::Sequence made = SmallEngine::sequence(4, kVocab);
    made.stop_strings = {"end", "middle", std::string(100, 'x') + "middle" + std::string(100, 'y') + "e"};
    croupier_decision last = script.decide(made, {1});
    CHECK(last.stop_string == 1);
    CHECK(last.stop_begin == 120);
    CHECK(script.text() == std::string(120, 'x'));

    SECTION("a match that begins within min_tokens counts where it ends behind them") {
        made.stop_strings = {"end"};
        made.params.min_tokens = 2;
        last = script.decide(made, {2, 2, 3});
        CHECK((last.flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_STRING);
        CHECK(last.stop_begin == 1);
        CHECK((script.decide(made, {2, 3}).flags & CROUPIER_STOPPED) == 0);
        CHECK(script.text() == "end");
    }
    SECTION("the prompt's text does not count") {
        made.stop_strings = {"end"};
        made.prompt = {2};
        CHECK((script.decide(made, {3}).flags & CROUPIER_STOPPED) == 0);
        CHECK(script.text() == "nd");
    }
    SECTION("text that may become a stop string is held back until it cannot") {
        made.stop_strings = {"ee", "end"};
        CHECK(script.decide(made, {2}).text_bytes == 0);
        CHECK(script.decide(made, {3, 2}).text_bytes == 2);
        CHECK(script.decide(made, {3, 2, 4, 3}).stop_begin == 2);  // an id without a token
    }
    SECTION("the log-prob of the token that completes a stop string is answered") {
        made.stop_strings = {"end"};
        CHECK(script.decide(made, {2, 3}).logprob < 0.0F);
    }
}

TEST_CASE("special tokens are a part of the text where a request asks for them") {
    const DaemonProcess daemon;
    const std::string tokenizer = R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"a": 0, "b": 1}},
        "added_tokens": [{"id": 2, "content": "<s>", "special": true}]})";
    const TokenizerFile file(tokenizer);
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    const std::string endpoint = daemon.endpoint();
    options.endpoint = endpoint.c_str();
    options.name = "special";
    options.vocab = kVocab;
    options.tokenizer = file.path().c_str();
    client::Session session(options);
    client::Sequence made;
    made.uid = 1;
    made.prompt = {0};
    made.output = {0, 2, 1, 2};
    session.add(made);
    CHECK(session.text(1) == "ab");
    made.uid = 2;
    made.params.flags |= CROUPIER_KEEP_SPECIAL;
    made.stop_strings = {"<s>b", "<s><"};
    session.add(made);
    CHECK(session.text(2) == "a<s>b");
    CHECK(session.text(2, 4) == "b");
    CHECK_THAT(failure_of([&] { (void)session.text(2, 6); }),
               Contains("has 5 bytes of released text, from is 6"));
    CHECK_THAT(failure_of([&] { (void)session.text(3); }), Contains("sequence 3 is not live"));
}

TEST_CASE("a session takes as many and as long stop strings as there may be, by default") {
    const DaemonProcess daemon;
    const TokenizerFile tokenizer(tiktoken_file(small_alphabet_pieces(kVocab)));
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    const std::string endpoint = daemon.endpoint();
    options.endpoint = endpoint.c_str();
    options.vocab = kVocab;
    options.tokenizer = tokenizer.path().c_str();
    client::Session session(options);
    client::Sequence sequence = SmallEngine::sequence(1, kVocab);
    sequence.stop_strings.assign(CROUPIER_MAX_STOP_STRINGS, std::string(CROUPIER_MAX_STOP_STRING_BYTES, 'x'));
    session.add(sequence);
    session.close();
}

TEST_CASE("stop strings that cannot be are refused with what would be right") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_texts());
    CHECK_THAT(refusal_of(engine, {"a", ""}), Contains("sequence 30: stop_strings[1] is empty"));
    CHECK_THAT(refusal_of(engine, {std::string(257, 'a')}),
               Contains("stop_strings[0] has 257 bytes; allowed: up to 256"));
    CHECK_THAT(refusal_of(engine, std::vector<std::string>(17, "a")),
               Contains("stop_strings has 17 strings; allowed: up to 16"));
    CHECK_THAT(refusal_of(engine, {"a\xC3"}), Contains("stop_strings[0] is not UTF-8"));
    CHECK(refusal_of(engine, std::vector<std::string>(15, std::string(256, 'a'))).empty());
    EngineShape small;
    SmallEngine plain(daemon.endpoint(), "plain", small);
    CHECK_THAT(refusal_of(plain, {"a"}), Contains("open it with the option tokenizer"));
    CHECK_THAT(failure_of([&] { (void)plain.session().text(1); }),
               Contains("open it with the option tokenizer"));
}

TEST_CASE("a tokenizer that is none is refused when the session is opened") {
    const DaemonProcess daemon;
    const auto refusal = [&](const std::string& path) {
        client::OpenOptions options;
        options.dtype = CROUPIER_BF16;
        const std::string endpoint = daemon.endpoint();
        options.endpoint = endpoint.c_str();
        options.vocab = kVocab;
        options.tokenizer = path.c_str();
        return failure_of([&] { const client::Session session(options); });
    };
    CHECK_THAT(refusal("/nowhere/tokenizer.json"),
               Contains("tokenizer '/nowhere/tokenizer.json': No such file or directory"));
    CHECK_THAT(refusal("/tmp"), Contains("is not a regular file"));
    const TokenizerFile wrong("not a tokenizer\n");
    CHECK_THAT(refusal(wrong.path()), Contains(wrong.path()) && Contains("line 1"));
    const TokenizerFile broken(R"({"model": {"vocab": {"a": 0}})");
    CHECK_THAT(refusal(broken.path()), Contains("not valid JSON"));
    const TokenizerFile unsupported(R"({"decoder": {"type": "WordPiece"}, "model": {"vocab": {"a": 0}}})");
    CHECK_THAT(refusal(unsupported.path()), Contains("the decoder WordPiece is not supported"));
}

TEST_CASE("a table of tokens beyond max_message_bytes is refused at once, with the setting and the size") {
    const DaemonProcess sizes;
    const std::string endpoint = sizes.endpoint() + "2";
    const DaemonProcess daemon(kTwoSamplers,
                               "control: {endpoint: \"" + endpoint + "\", max_message_bytes: 64KiB}");
    const TokenizerFile tokenizer(tiktoken_file(small_alphabet_pieces(40'000)));
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = endpoint.c_str();
    options.vocab = 40'000;
    options.tokenizer = tokenizer.path().c_str();
    options.timeout_ms = 60'000;
    const auto begun = std::chrono::steady_clock::now();
    CHECK_THAT(failure_of([&] { const client::Session session(options); }),
               Contains("ended the connection during a request of") &&
                   Contains("control.max_message_bytes, which should be 1MiB or more"));
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
    // A smaller request of the same client is answered.
    options.tokenizer = nullptr;
    client::Session(options).close();
}

TEST_CASE("a session is resumed with its own tokenizer alone, and two sessions have two") {
    const DaemonProcess daemon;
    EngineShape shape = with_texts();
    EngineShape other = with_texts();
    std::reverse(other.pieces.begin(), other.pieces.end());
    shape.resume = other.resume = true;
    std::mt19937_64 random(14);
    auto first = std::make_unique<SmallEngine>(daemon.endpoint(), "first", shape);
    SmallEngine second(daemon.endpoint(), "second", other);
    for (std::uint64_t uid = 1; uid <= 4; ++uid) {
        const client::Sequence made = random_sequence(uid, random);
        first->admit(made);
        second.admit(made);
    }
    for (int round = 0; round < 20; ++round) {
        first->step();
        second.step();
    }
    first.reset();
    CHECK_THAT(failure_of([&] { const SmallEngine wrong(daemon.endpoint(), "first", other); }),
               Contains("the tokenizer is another one"));
    EngineShape without = shape;
    without.pieces.clear();
    CHECK_THAT(failure_of([&] { const SmallEngine wrong(daemon.endpoint(), "first", without); }),
               Contains("the tokenizer is one of") && Contains("absent"));
    const SmallEngine again(daemon.endpoint(), "first", shape);
}

TEST_CASE("what a hostile client writes over stop strings and tokens harms its own sequence alone") {
    const DaemonProcess daemon(kTwoSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", with_texts());
    std::mt19937_64 random(15);
    for (std::uint64_t uid = 1; uid <= 4; ++uid) engine.admit(random_sequence(uid, random));
    engine.steps(4);
    auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_write);
    const shm::Segment& written = segment.value();
    std::uint32_t slot = 0;
    while (written.sequence(slot).uid != 2) ++slot;
    const proto::SequenceEntry& entry = written.sequence(slot);
    std::int32_t* const words = written.lists(slot) + entry.breakers_count;
    const std::int32_t length = *words;
    *words = GENERATE(0, 257, -1, 1 << 30);
    engine.expect_error(2, proto::DecisionError::bad_parameter);
    engine.steps(2);
    *words = length;
    engine.expect_no_error(2);
    engine.steps(2);
}

TEST_CASE("a broken table of tokens changes texts and nothing else") {
    const DaemonProcess daemon(kTwoSamplers);
    const pid_t sampler = daemon.sampler_pid(0);
    SmallEngine neighbour(daemon.endpoint(), "neighbour", with_texts());
    std::mt19937_64 random(16);
    for (std::uint64_t uid = 1; uid <= 4; ++uid) neighbour.admit(random_sequence(uid, random));
    for (int round = 0; round < 20; ++round) {
        client::OpenOptions options;
        options.dtype = CROUPIER_BF16;
        const std::string endpoint = daemon.endpoint();
        const TokenizerFile file(tiktoken_file(with_texts().pieces));
        options.endpoint = endpoint.c_str();
        options.name = "hostile";
        options.vocab = kVocab;
        options.tp = 2;
        options.tokenizer = file.path().c_str();
        client::Session session(options);
        auto segment = shm::Segment::attach(session.segment_path(), shm::Access::read_write);
        const auto table = segment.value().token_table();
        client::Sequence made = random_sequence(1, random);
        session.add(made);
        // The head in some rounds, entries in others.
        for (std::uint64_t i = 0; i < 200; ++i)
            table[random() % (round % 2 == 0 ? 24 : table.size())] = static_cast<std::byte>(random());
        const croupier_column column = croupier_column_of(1);
        std::vector<gpu_writer::RankWriter> writers;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            writers.push_back(
                std::move(gpu_writer::RankWriter::attach(session.segment_path(), rank)).value());
        for (int step = 0; step < 8; ++step) {
            const std::uint64_t number = session.submit({&column, 1});
            for (auto& writer : writers) {
                const std::vector<std::uint16_t> row(kVocab,
                                                     static_cast<std::uint16_t>(0x3F80 + random() % 64));
                writer.write_column(number, 0, row.data());
                need(writer.publish_all(number));
            }
            // The library reads its own table: it may find that the decision contradicts it.
            (void)failure_of([&] { CHECK(session.wait(20000)); });
        }
        session.close();
        neighbour.step();
    }
    CHECK(daemon.sampler_pid(0) == sampler);
}

TEST_CASE("a truncate that takes no token leaves a text where its stop string ended it") {
    const DaemonProcess daemon(kTwoSamplers);
    std::mt19937_64 random(21);
    SmallEngine engine(daemon.endpoint(), "engine", with_texts());
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(random_sequence(uid, random));
    int looked = 0;
    for (int step = 0; step < 200 && looked < 5; ++step) {
        engine.step();
        for (std::uint64_t uid = 1; uid <= 8; ++uid) {
            if ((engine.decisions().at(uid).back().flags & CROUPIER_STOPPED_STRING) == 0) continue;
            const std::string text = engine.session().text(uid);
            const auto stop = engine.session().text_stop(uid);
            REQUIRE(stop.has_value());
            engine.truncate(uid, static_cast<std::uint32_t>(engine.streams().at(uid).size()));
            CHECK(engine.session().text(uid) == text);
            CHECK(engine.session().text_stop(uid) == stop);
            ++looked;
        }
    }
    CHECK(looked >= 5);
}
