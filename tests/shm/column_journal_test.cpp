// What samplers keep of their columns: each entry is read once and whole, whatever its writer does meanwhile.
#include "shm/column_journal.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "single_step.h"
#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;
using proto::kJournalEntries;

namespace {

// Every word of it tells which one it is.
proto::ColumnRecord column_record(std::uint64_t number) {
    proto::ColumnRecord record;
    record.session_id = number + 1;
    record.step = number + 2;
    record.sequence_uid = number + 3;
    record.ready_ns = number + 4;
    record.begin_ns = number + 5;
    record.duration_ns = static_cast<std::uint32_t>(number + 6);
    record.blocks_read = static_cast<std::uint32_t>(number + 7);
    record.column = static_cast<std::uint16_t>(number + 8);
    return record;
}

bool is_record(const proto::ColumnRecord& record, std::uint64_t number) {
    const proto::ColumnRecord wanted = column_record(number);
    return std::memcmp(&record, &wanted, sizeof(record)) == 0;
}

std::uint64_t number_of(const proto::ColumnRecord& record) {
    return record.session_id - 1;
}

// Two samplers of two threads.
struct Instance {
    TestDirectory directory;
    Plane plane = Plane::create(directory.path(), "test", 2, 2).value();

    Plane open(Access access) const { return Plane::attach(directory.path(), "test", access).value(); }
    JournalWriter writer(std::size_t ring) const { return JournalWriter(plane.journals()[ring]); }
};

void write_columns(JournalWriter writer, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t number = first; number < first + count; ++number) writer.write(column_record(number));
}

}  // namespace

TEST_CASE("a reader without write access reads each entry of a journal once, with its sampler and thread") {
    const Instance instance;
    const Plane plane = instance.open(Access::read_only);
    REQUIRE(plane.journals().size() == 4);
    JournalReader reader(plane, JournalReader::From::oldest);
    CHECK(reader.read(plane).columns.empty());
    write_columns(instance.writer(0), 0, 2);
    write_columns(instance.writer(3), 7, 1);
    proto::StepRecord step;
    step.session_id = 3;
    step.step = 5;
    step.commit_ns = 99;
    step.last_rank = 2;
    instance.writer(1).write(step);
    const JournalPart part = reader.read(plane);
    CHECK(part.lost == 0);
    REQUIRE(part.columns.size() == 3);
    for (const std::size_t i : {0U, 1U}) {
        CHECK(is_record(part.columns[i].record, i));
        CHECK((part.columns[i].sampler == 0 && part.columns[i].thread == 0));
    }
    CHECK(is_record(part.columns[2].record, 7));
    CHECK((part.columns[2].sampler == 1 && part.columns[2].thread == 1));
    REQUIRE(part.steps.size() == 1);
    CHECK(std::memcmp(&part.steps[0], &step, sizeof(step)) == 0);
    const JournalPart again = reader.read(plane);
    CHECK((again.columns.empty() && again.steps.empty() && again.lost == 0));
}

TEST_CASE(
    "a reader that begins now reads nothing older, and one that begins with the oldest entry misses none") {
    const Instance instance;
    write_columns(instance.writer(0), 0, kJournalEntries + 5);
    JournalReader now(instance.plane, JournalReader::From::now);
    JournalReader oldest(instance.plane, JournalReader::From::oldest);
    CHECK(now.read(instance.plane).columns.empty());
    const JournalPart kept = oldest.read(instance.plane);
    CHECK(kept.lost == 0);
    REQUIRE(kept.columns.size() == kJournalEntries);
    CHECK(is_record(kept.columns.front().record, 5));
    CHECK(is_record(kept.columns.back().record, kJournalEntries + 4));
}

TEST_CASE("entries that were overwritten before they were read are counted, and the rest are read") {
    const Instance instance;
    JournalReader reader(instance.plane, JournalReader::From::oldest);
    const std::uint64_t more = GENERATE(std::uint64_t{1}, std::uint64_t{77}, kJournalEntries + 1);
    write_columns(instance.writer(2), 0, kJournalEntries + more);
    const JournalPart part = reader.read(instance.plane);
    CHECK(part.lost == more);
    REQUIRE(part.columns.size() == kJournalEntries);
    CHECK(is_record(part.columns.front().record, more));
}

TEST_CASE("a writer that dies at any instruction leaves no torn entry, and its successor goes on behind it") {
    if (!can_single_step()) return;
    const Instance instance;
    // The ring is full: what the dead one tore had stood there before.
    write_columns(instance.writer(0), 0, kJournalEntries);
    JournalReader reader(instance.plane, JournalReader::From::now);
    std::uint64_t next = kJournalEntries;
    long torn = 0;
    const SteppedBody body = [&](const std::function<void()>& marker) {
        const Plane plane = instance.open(Access::read_write);
        JournalWriter writer(plane.journals()[0]);
        const proto::ColumnRecord record = column_record(next);
        marker();
        writer.write(record);
        marker();
    };
    die_everywhere(body, [&](long instructions) {
        INFO("killed after " << instructions << " instructions of entry " << next);
        JournalReader all(instance.plane, JournalReader::From::oldest);
        const JournalPart kept = all.read(instance.plane);
        torn += static_cast<long>(kept.lost);
        REQUIRE(kept.lost <= 1);
        for (const auto& column : kept.columns) REQUIRE(is_record(column.record, number_of(column.record)));
        const JournalPart seen = reader.read(instance.plane);
        REQUIRE(seen.columns.size() <= 1);
        REQUIRE(seen.lost == 0);
        if (!seen.columns.empty()) REQUIRE(is_record(seen.columns[0].record, next++));
        write_columns(instance.writer(0), next, 1);
        const JournalPart after = reader.read(instance.plane);
        REQUIRE(after.columns.size() == 1);
        REQUIRE(is_record(after.columns[0].record, next++));
    });
    CHECK(torn > 0);
}

TEST_CASE("beside a writer that never rests every entry is read whole and in order, or is counted as lost") {
    const Instance instance;
    constexpr std::uint64_t kEntries = 2'000'000;
    // Before the first entry: what came earlier it would not count.
    const Plane plane = instance.open(Access::read_only);
    JournalReader reader(plane, JournalReader::From::oldest);
    auto writer = ChildProcess::start([&] {
        const Plane own = instance.open(Access::read_write);
        write_columns(JournalWriter(own.journals()[0]), 0, kEntries);
        return 0;
    });
    std::uint64_t seen = 0;
    std::uint64_t last = 0;
    bool over = false;
    for (std::uint64_t lost = 0; seen + lost < kEntries;) {
        // It may end between this look and the reading, which is the last one then.
        REQUIRE_FALSE(over);
        over = writer.poll().has_value();
        const JournalPart part = reader.read(plane);
        lost += part.lost;
        for (const auto& column : part.columns) {
            const std::uint64_t number = number_of(column.record);
            REQUIRE(is_record(column.record, number));
            REQUIRE((seen == 0 || number > last));
            last = number;
            ++seen;
        }
        if (over) REQUIRE(seen + lost == kEntries);
    }
    CHECK(last == kEntries - 1);
    CHECK(seen >= kJournalEntries / 2);
}

TEST_CASE("a writer without a ring records nothing") {
    JournalWriter().write(column_record(1));
    JournalWriter().write(proto::StepRecord{});
    SUCCEED("nothing was touched");
}

TEST_CASE("a plane whose size is not that of its samplers' journals is refused, naming both") {
    const TestDirectory directory;
    REQUIRE(Plane::create(directory.path(), "test", 2, 2));
    const std::string path = plane_path(directory.path(), "test");
    const auto wrong = [&] { return Plane::attach(directory.path(), "test", Access::read_only).error(); };
    REQUIRE(::truncate(path.c_str(), static_cast<off_t>(proto::plane_bytes(2, 2) - 64)) == 0);
    CHECK(wrong().code == Errc::wrong_size);
    CHECK(wrong().message.find("2 samplers of 2 threads it should have " +
                               std::to_string(proto::plane_bytes(2, 2))) != std::string::npos);
    REQUIRE(::truncate(path.c_str(), static_cast<off_t>(proto::plane_bytes(2, 2))) == 0);
    REQUIRE(Plane::attach(directory.path(), "test", Access::read_only));
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(offsetof(proto::PlaneHeader, sampler_count))
        .write("\xff\xff\xff\xff", 4);
    CHECK(wrong().code == Errc::wrong_size);
}

TEST_CASE("a plane of an older version is refused by its version, though its size differs too") {
    const TestDirectory directory;
    REQUIRE(Plane::create(directory.path(), "test", 1, 1));
    const std::string path = plane_path(directory.path(), "test");
    REQUIRE(::truncate(path.c_str(), 4096) == 0);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(offsetof(proto::PlaneHeader, version))
        .write("\4\0\0\0", 4);
    const auto refused = Plane::attach(directory.path(), "test", Access::read_only);
    REQUIRE(refused.error().code == Errc::wrong_version);
    CHECK(refused.error().message.find("has version 4, this build speaks") != std::string::npos);
}
