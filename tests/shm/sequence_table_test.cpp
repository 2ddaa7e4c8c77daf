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
    for (std::uint64_t uid = 0; uid < 8; ++uid) REQUIRE(table.add(sequence(uid, std::span(prompt).first(1))));
    CHECK(table.add(sequence(9, std::span(prompt).first(1))).error().code == Errc::table_full);
    table.remove(3);
    CHECK(table.add(sequence(9, std::span(prompt).first(1))).value() == 3);
}

TEST_CASE("a client that dies at any instruction of an admission leaves a free slot or the whole sequence") {
    if (!can_single_step()) return;
    TestSession session;
    const auto prompt = tokens(9, 100);
    long absent = 0;
    long whole = 0;
    const SteppedBody admit = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        SequenceTable table(segment.value());
        const NewSequence wanted = sequence(5, prompt);
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
        table.remove(live[0].slot);
        std::fill_n(segment.token_log(live[0].slot), prompt.size(), -1);
    });
    CHECK(absent > 0);
    CHECK(whole > 0);
}
