#include "client/live_sequences.h"

#include <catch2/catch.hpp>
#include <vector>

#include "testing/session_files.h"

using namespace croupier;
using Catch::Matchers::Contains;
using client::LiveSequences;
using testing::need;
using testing::SessionFiles;

namespace {

shm::NewSequence sequence_of(std::uint64_t uid, std::span<const std::int32_t> prompt,
                             std::span<const std::int32_t> output = {}) {
    shm::NewSequence sequence;
    sequence.uid = uid;
    sequence.prompt = prompt;
    sequence.output = output;
    return sequence;
}

const std::vector<std::int32_t> kPrompt = {1, 2, 3};
const std::vector<std::int32_t> kOutput = {4, 5};

}  // namespace

TEST_CASE("a column's position is the length of the sequence's output") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    auto sequence = sequence_of(7, kPrompt, kOutput);
    sequence.params.temperature = 0.5;
    need(sequences.add(sequence));
    const auto column = need(sequences.enter(7, 0));
    CHECK(column.sequence_uid == 7);
    CHECK(column.position == 2);
    CHECK(column.temperature == 0.5F);
    CHECK(column.mask_row == 0);
    CHECK(files.segment.sequence(column.sequence_slot).uid == 7);
}

TEST_CASE("a sequence stands in one column of one step in flight") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    need(sequences.add(sequence_of(7, kPrompt)));
    need(sequences.enter(7, 4));
    SECTION("not twice in a step") {
        CHECK_THAT(sequences.enter(7, 4).error().message, Contains("two columns of one step"));
    }
    SECTION("not in a second step") {
        CHECK_THAT(sequences.enter(7, 5).error().message, Contains("sequence 7 is still in step 4"));
    }
    SECTION("nor is it finished meanwhile") {
        CHECK_THAT(sequences.remove(7).error().message, Contains("sequence 7 is in step 4"));
    }
    SECTION("again once the step is taken") {
        sequences.leave(7, 4);
        CHECK(sequences.enter(7, 5));
    }
    SECTION("another step's end changes nothing") {
        sequences.leave(7, 3);
        CHECK_FALSE(sequences.enter(7, 5));
    }
}

TEST_CASE("a uid is live once, and unknown ones are refused by name") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    need(sequences.add(sequence_of(7, kPrompt)));
    CHECK_THAT(sequences.add(sequence_of(7, kPrompt)).error().message,
               Contains("sequence 7 is live already"));
    CHECK(sequences.enter(8, 0).error().code == shm::Errc::unknown_sequence);
    CHECK(sequences.remove(8).error().code == shm::Errc::unknown_sequence);
    CHECK(sequences.output(8).error().code == shm::Errc::unknown_sequence);
    need(sequences.remove(7));
    CHECK(sequences.size() == 0);
    CHECK(sequences.add(sequence_of(7, kPrompt)));
}

TEST_CASE("a full table says so, and has room again after a finish") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    for (std::uint64_t uid = 0; uid < 16; ++uid) need(sequences.add(sequence_of(uid, kPrompt)));
    CHECK(sequences.add(sequence_of(16, kPrompt)).error().code == shm::Errc::table_full);
    need(sequences.remove(3));
    CHECK(sequences.add(sequence_of(16, kPrompt)));
}

TEST_CASE("a client that comes after a dead one finds its sequences and their outputs") {
    SessionFiles files(testing::small_geometry());
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt, kOutput)));
        need(dead.add(sequence_of(9, kPrompt)));
    }
    LiveSequences found(files.segment);
    CHECK(found.size() == 2);
    std::vector<std::uint64_t> uids(5);
    CHECK(found.list(std::span(uids).first(1)) == 2);
    CHECK(found.list(uids) == 2);
    const auto output = need(found.output(7));
    CHECK(std::vector<std::int32_t>(output.begin(), output.end()) == kOutput);
    CHECK(found.add(sequence_of(7, kPrompt)).error().code == shm::Errc::bad_argument);
}

TEST_CASE("a length that another process has spoiled does not lead outside the log") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    need(sequences.add(sequence_of(7, kPrompt)));
    const auto column = need(sequences.enter(7, 0));
    files.segment.sequence(column.sequence_slot).length = 4'000'000'000U;
    CHECK(need(sequences.output(7)).size() == 64 - 3);
}
