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
    need(sequences.add(sequence));
    sequences.begin_submit();
    const auto column = need(sequences.ask(7, 0, 1)).column;
    CHECK(column.sequence_uid == 7);
    CHECK(column.position == 2);
    CHECK(column.after_steps == 0);
    CHECK(column.mask_row == 0);
    CHECK(files.segment.sequence(column.sequence_slot).uid == 7);
}

namespace {

// As a client submits a step with one sequence in its column 0.
proto::ScheduleColumn submit(LiveSequences& sequences, std::uint64_t uid, std::uint64_t step,
                             LiveSequences::Entry** entry = nullptr) {
    sequences.begin_submit();
    const auto asked = need(sequences.ask(uid, step, 1));
    sequences.enter(*asked.entry, step, 0, asked.column);
    if (entry != nullptr) *entry = asked.entry;
    return asked.column;
}

}  // namespace

TEST_CASE("a sequence stands in one column of a step, and in several steps in flight") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    need(sequences.add(sequence_of(7, kPrompt)));
    LiveSequences::Entry* entry = nullptr;
    const auto first = submit(sequences, 7, 4, &entry);
    SECTION("not twice in a step") {
        sequences.begin_submit();
        need(sequences.ask(7, 5, 1));
        CHECK_THAT(sequences.ask(7, 5, 1).error().message, Contains("two columns of one step"));
    }
    SECTION("in a second step it is one token further, and knows where it stood before") {
        const auto second = submit(sequences, 7, 6);
        CHECK(second.position == first.position + 1);
        CHECK(second.ticket == first.ticket + 1);
        CHECK(second.after_steps == 2);
        CHECK(second.after_column == 0);
    }
    SECTION("once the step is taken it stands behind nothing") {
        sequences.leave(*entry, 4, 1);
        CHECK(submit(sequences, 7, 5).after_steps == 0);
    }
    SECTION("a truncate makes void what is in flight, and no more") {
        CHECK_FALSE(entry->is_void_in(4));
        need(sequences.truncate(7, 0));
        CHECK(entry->is_void_in(4));
        const auto after = submit(sequences, 7, 5);
        CHECK_FALSE(entry->is_void_in(5));
        CHECK(after.position == first.position);
        CHECK(after.revision == first.revision + 1);
    }
    SECTION("finished, its uid may live again at once; its slot when the step is taken") {
        need(sequences.finish(7));
        CHECK(entry->is_void_in(4));
        CHECK(sequences.size() == 0);
        need(sequences.add(sequence_of(7, kPrompt)));
        CHECK(submit(sequences, 7, 5).sequence_slot != first.sequence_slot);
        CHECK(files.segment.sequence(first.sequence_slot).state == proto::SequenceState::ending);
        sequences.leave(*entry, 4, 1);
        CHECK(files.segment.sequence(first.sequence_slot).state == proto::SequenceState::free);
    }
}

TEST_CASE(
    "a decision that ended its sequence is no void one, though its client died before it was done with the "
    "step") {
    SessionFiles files(testing::small_geometry());
    proto::ScheduleColumn ended;
    proto::ScheduleColumn behind;
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt)));
        ended = submit(dead, 7, 4);
        behind = submit(dead, 7, 5);
    }
    const std::uint32_t slot = ended.sequence_slot;
    files.segment.sequence(slot).length = 4;
    shm::revise(files.segment, slot, 4, 4);
    LiveSequences found(files.segment);
    LiveSequences::Entry* entry = found.recall(ended, 4, 0);
    REQUIRE(entry == found.recall(behind, 5, 0));
    found.recalled_all();
    CHECK_FALSE(entry->is_void_in(4));
    CHECK(entry->is_void_in(5));
    // It goes on behind the token of step 4, which stands in the log already.
    CHECK(submit(found, 7, 6).position == 1);
    CHECK_FALSE(entry->is_void_in(6));
}

TEST_CASE("void columns of a resumed sequence are void though other steps lie between theirs") {
    SessionFiles files(testing::small_geometry());
    std::vector<proto::ScheduleColumn> columns;
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt, kOutput)));
        for (const std::uint64_t step : {4U, 7U, 9U}) columns.push_back(submit(dead, 7, step));
        need(dead.truncate(7, 1));
    }
    LiveSequences found(files.segment);
    LiveSequences::Entry* entry = nullptr;
    const std::vector<std::uint64_t> steps = {4, 7, 9};
    for (std::size_t i = 0; i < steps.size(); ++i) entry = found.recall(columns[i], steps[i], 0);
    found.recalled_all();
    REQUIRE(entry != nullptr);
    for (const std::uint64_t step : steps) {
        CHECK(entry->is_void_in(step));
        found.leave(*entry, step, 1);
    }
    CHECK(submit(found, 7, 10).position == 1);
}

TEST_CASE("a client that died once its log was longer is followed by one that counts the step once") {
    SessionFiles files(testing::small_geometry());
    proto::ScheduleColumn in_flight;
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt)));
        in_flight = submit(dead, 7, 4);
    }
    files.segment.sequence(in_flight.sequence_slot).length = 4;
    LiveSequences found(files.segment);
    found.recall(in_flight, 4, 0);
    found.recalled_all();
    CHECK(submit(found, 7, 5).position == 1);
}

TEST_CASE("a table that names a uid twice leads to no access outside of it") {
    SessionFiles files(testing::small_geometry());
    proto::ScheduleColumn first;
    proto::ScheduleColumn second;
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt)));
        need(dead.add(sequence_of(9, kPrompt)));
        first = submit(dead, 7, 4);
        second = submit(dead, 9, 5);
    }
    files.segment.sequence(second.sequence_slot).uid = 7;
    second.sequence_uid = 7;
    LiveSequences found(files.segment);
    CHECK(found.size() == 1);
    LiveSequences::Entry* one = found.recall(first, 4, 0);
    LiveSequences::Entry* other = found.recall(second, 5, 0);
    CHECK((one == nullptr || other == nullptr));
    found.recalled_all();
}

TEST_CASE("a client that comes after a dead one frees what that one had finished") {
    SessionFiles files(testing::small_geometry());
    proto::ScheduleColumn in_flight;
    {
        LiveSequences dead(files.segment);
        need(dead.add(sequence_of(7, kPrompt)));
        need(dead.add(sequence_of(9, kPrompt)));
        in_flight = submit(dead, 7, 4);
        submit(dead, 9, 5);
        need(dead.finish(7));
        need(dead.finish(9));
    }
    LiveSequences found(files.segment);
    CHECK(found.size() == 0);
    LiveSequences::Entry* entry = found.recall(in_flight, 4, 0);
    REQUIRE(entry != nullptr);
    // Sequence 9's step was taken before the death, its slot not given back.
    found.recalled_all();
    CHECK(entry->is_void_in(4));
    CHECK(files.segment.sequence(in_flight.sequence_slot).state == proto::SequenceState::ending);
    found.leave(*entry, 4, 1);
    for (std::uint32_t slot = 0; slot < 16; ++slot)
        CHECK(files.segment.sequence(slot).state == proto::SequenceState::free);
}

TEST_CASE("a uid is live once, and unknown ones are refused by name") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    need(sequences.add(sequence_of(7, kPrompt)));
    CHECK_THAT(sequences.add(sequence_of(7, kPrompt)).error().message,
               Contains("sequence 7 is live already"));
    CHECK(sequences.ask(8, 0, 1).error().code == shm::Errc::unknown_sequence);
    CHECK(sequences.finish(8).error().code == shm::Errc::unknown_sequence);
    CHECK(sequences.output(8).error().code == shm::Errc::unknown_sequence);
    need(sequences.finish(7));
    CHECK(sequences.size() == 0);
    CHECK(sequences.add(sequence_of(7, kPrompt)));
}

TEST_CASE("a full table says so, and has room again after a finish") {
    SessionFiles files(testing::small_geometry());
    LiveSequences sequences(files.segment);
    for (std::uint64_t uid = 0; uid < 16; ++uid) need(sequences.add(sequence_of(uid, kPrompt)));
    CHECK(sequences.add(sequence_of(16, kPrompt)).error().code == shm::Errc::table_full);
    need(sequences.finish(3));
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
    sequences.begin_submit();
    const auto column = need(sequences.ask(7, 0, 1)).column;
    files.segment.sequence(column.sequence_slot).length = 4'000'000'000U;
    CHECK(need(sequences.output(7)).size() == 64 - 3);
}
