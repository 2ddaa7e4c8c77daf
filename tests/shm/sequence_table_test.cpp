#include "shm/sequence_table.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "single_step.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

std::vector<std::int32_t> tokens(std::size_t count, std::int32_t first = 1) {
    std::vector<std::int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
}

NewSequence sequence(std::uint64_t uid, std::span<const std::int32_t> prompt) {
    NewSequence wanted;
    wanted.uid = uid;
    wanted.prompt = prompt;
    return wanted;
}

}  // namespace

TEST_CASE("a new client finds the sequences of a dead one, with prompt and output") {
    TestSession session;
    const auto prompt = tokens(3);
    const auto output = tokens(2, 10);
    {
        Segment segment = session.open();
        NewSequence wanted = sequence(77, prompt);
        wanted.output = output;
        REQUIRE(SequenceTable(segment).add(wanted));
    }
    Segment segment = session.open();
    const auto live = SequenceTable(segment).live();
    REQUIRE(live.size() == 1);
    CHECK(live[0].uid == 77);
    CHECK(std::equal(live[0].prompt.begin(), live[0].prompt.end(), prompt.begin(), prompt.end()));
    CHECK(std::equal(live[0].output.begin(), live[0].output.end(), output.begin(), output.end()));
}

TEST_CASE("a sequence that is given a hot set draws by it, unless its request names another rng") {
    TestSession session;
    Segment segment = session.open();
    SequenceTable table(segment);
    const auto prompt = tokens(1);
    const auto rng_of = [&](proto::Rng asked, std::uint32_t hot_choice) {
        segment.header().hot_choice.store(hot_choice);
        segment.header().hot_trial.store(hot_choice);
        NewSequence wanted = sequence(5, prompt);
        wanted.params.rng = asked;
        const auto slot = table.add(wanted);
        REQUIRE(slot);
        const proto::Rng rng = segment.params(slot.value()).load().rng;
        table.remove(slot.value());
        return rng;
    };
    using proto::Rng;
    CHECK(rng_of(Rng::race, 0) == Rng::race);
    CHECK(rng_of(Rng::race, 3) == Rng::shvs);
    for (const std::uint32_t choice : {0U, 3U}) {
        for (const Rng named : {Rng::shvs, Rng::sglang, Rng::vllm}) CHECK(rng_of(named, choice) == named);
    }
}

TEST_CASE("a full table and what does not fit an entry are refused, naming the option to enlarge") {
    TestSession session;
    Segment segment = session.open();
    SequenceTable table(segment);
    const auto prompt = tokens(32);
    const auto too_long = table.add(sequence(1, prompt));
    REQUIRE_FALSE(too_long);
    CHECK(too_long.error().message.find("max_length") != std::string::npos);
    NewSequence biased = sequence(1, std::span(prompt).first(1));
    const std::vector<proto::TokenBias> bias(5);
    biased.bias = bias;
    CHECK(table.add(biased).error().message.find("max_bias") != std::string::npos);
    NewSequence stopped = sequence(1, std::span(prompt).first(1));
    stopped.stop_ids = std::span(prompt).first(5);
    CHECK(table.add(stopped).error().message.find("max_stop_ids") != std::string::npos);
    NewSequence listed = sequence(1, std::span(prompt).first(1));
    listed.allowed_ids = std::span(prompt).first(3);
    listed.bad_words = std::span(prompt).first(3);
    listed.dry_breakers = std::span(prompt).first(3);
    CHECK(table.add(listed).error().message.find(
              "9 words of allowed ids, bad words, DRY breakers and stop strings, the "
              "session was opened for 8; open it with a larger "
              "max_list_tokens") != std::string::npos);
    for (std::uint64_t uid = 0; uid < 8; ++uid) REQUIRE(table.add(sequence(uid, std::span(prompt).first(1))));
    CHECK(table.add(sequence(9, std::span(prompt).first(1))).error().code == Errc::table_full);
    table.remove(3);
    CHECK(table.add(sequence(9, std::span(prompt).first(1))).value() == 3);
}

TEST_CASE("the lists of a sequence lie one after the other, and what a slot's last sequence left is gone") {
    TestSession session;
    Segment segment = session.open();
    SequenceTable table(segment);
    const auto prompt = tokens(1);
    const std::vector<std::int32_t> allowed = {3, 4, 5};
    const std::vector<std::int32_t> words = {1, 6};
    const std::vector<std::int32_t> breakers = {2, 7, 8};
    NewSequence wanted = sequence(5, prompt);
    wanted.allowed_ids = allowed;
    wanted.bad_words = words;
    wanted.dry_breakers = breakers;
    const std::uint32_t slot = table.add(wanted).value();
    proto::SequenceEntry& entry = segment.sequence(slot);
    CHECK(entry.allowed_count == 3);
    CHECK(entry.bad_words_count == 2);
    CHECK(entry.breakers_count == 3);
    const std::vector<std::int32_t> all = {3, 4, 5, 1, 6, 2, 7, 8};
    CHECK(std::equal(all.begin(), all.end(), segment.lists(slot)));
    segment.feedback(slot)[1] = {{5.0, 1.0}, 1, 0};
    table.remove(slot);
    REQUIRE(table.add(sequence(6, prompt)).value() == slot);
    CHECK(entry.allowed_count + entry.bad_words_count + entry.breakers_count == 0);
    for (const proto::FeedbackAfter& left : segment.feedback(slot)) {
        CHECK(left.outputs == 0);
        CHECK(left.feedback.weight == 0.0);
    }
}

TEST_CASE("a revision is a step's own only where that step made it, whichever its number") {
    TestSession session;
    Segment segment = session.open();
    SequenceTable table(segment);
    const auto prompt = tokens(1);
    const std::uint32_t slot = table.add(sequence(5, prompt)).value();
    const std::uint64_t step =
        GENERATE(std::uint64_t{0}, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFEU, 0xFFFFFFFFU, 1ULL << 32U);
    proto::ScheduleColumn column;
    column.sequence_slot = slot;
    column.revision = segment.sequence(slot).revision(std::memory_order_relaxed).number;
    CHECK_FALSE(revised_since(segment, column, step));
    revise(segment, slot, 1, step);
    CHECK_FALSE(revised_since(segment, column, step));
    CHECK(revised_since(segment, column, step + 1));
    CHECK(revised_since(segment, column, step - 1));
    // A truncate or a finish is no step's.
    column.revision = segment.sequence(slot).revision(std::memory_order_relaxed).number;
    revise(segment, slot, 1);
    CHECK(revised_since(segment, column, step));
}

TEST_CASE("a client that dies at any instruction of a fork leaves a free slot or the whole child") {
    if (!can_single_step()) return;
    TestSession session;
    const auto prompt = tokens(4, 100);
    const auto output = tokens(3, 200);
    std::uint32_t parent = 0;
    {
        Segment segment = session.open();
        SequenceTable table(segment);
        NewSequence wanted = sequence(5, prompt);
        wanted.output = output;
        wanted.params.seed = 77;
        parent = table.add(wanted).value();
        segment.feedback(parent)[2] = {{0.5, 1.0}, 2, segment.sequence(parent).admission.load()};
    }
    long absent = 0;
    long whole = 0;
    const SteppedBody fork = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        SequenceTable table(segment.value());
        marker();
        (void)table.fork(parent, {5, 6, 2, 3});
        marker();
    };
    die_everywhere(fork, [&](long instructions) {
        INFO("killed after " << instructions << " instructions");
        Segment segment = session.open();
        SequenceTable table(segment);
        const auto live = table.live();
        REQUIRE((live.size() == 1 || live.size() == 2));
        ++(live.size() == 1 ? absent : whole);
        if (live.size() == 1) return;
        const LiveSequence& child = live[0].uid == 6 ? live[0] : live[1];
        REQUIRE(std::equal(child.prompt.begin(), child.prompt.end(), prompt.begin(), prompt.end()));
        REQUIRE(std::equal(child.output.begin(), child.output.end(), output.begin(), output.begin() + 2));
        const proto::SamplingParams params = segment.params(child.slot);
        REQUIRE(params.seed == 77);
        REQUIRE(params.child == 3);
        const proto::FeedbackAfter& left = segment.feedback(child.slot)[2];
        REQUIRE(left.feedback.level == 0.5);
        REQUIRE(left.admission == segment.sequence(child.slot).admission.load());
        table.remove(child.slot);
        segment.feedback(child.slot) = {};
        std::fill_n(segment.token_log(child.slot), 6, -1);
    });
    CHECK(absent > 0);
    CHECK(whole > 0);
}

TEST_CASE("a client that dies at any instruction of an admission leaves a free slot or the whole sequence") {
    if (!can_single_step()) return;
    TestSession session;
    const auto prompt = tokens(9, 100);
    const std::vector<std::int32_t> words = {3, 9, 8, 7};
    long absent = 0;
    long whole = 0;
    const SteppedBody admit = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        SequenceTable table(segment.value());
        NewSequence wanted = sequence(5, prompt);
        wanted.bad_words = words;
        marker();
        (void)table.add(wanted);
        marker();
    };
    die_everywhere(admit, [&](long instructions) {
        INFO("killed after " << instructions << " instructions");
        Segment segment = session.open();
        SequenceTable table(segment);
        const auto live = table.live();
        REQUIRE(live.size() <= 1);
        ++(live.empty() ? absent : whole);
        if (live.empty()) return;
        REQUIRE(live[0].uid == 5);
        REQUIRE(std::equal(live[0].prompt.begin(), live[0].prompt.end(), prompt.begin(), prompt.end()));
        REQUIRE(segment.sequence(live[0].slot).bad_words_count == words.size());
        REQUIRE(std::equal(words.begin(), words.end(), segment.lists(live[0].slot)));
        table.remove(live[0].slot);
        std::fill_n(segment.lists(live[0].slot), words.size(), -1);
        std::fill_n(segment.token_log(live[0].slot), prompt.size(), -1);
    });
    CHECK(absent > 0);
    CHECK(whole > 0);
}
