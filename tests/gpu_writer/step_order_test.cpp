// Which steps a writer may begin, and what becomes of those it may not.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>

#include "shm/bell.h"
#include "shm/logits_publisher.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::size_t kRowBytes = 2000;

Rows some_rows(std::uint32_t columns) {
    return testing::random_rows(testing::small_geometry(), 0, columns, 1000, columns);
}

struct Session {
    explicit Session(Way way, const proto::Geometry& geometry = testing::small_geometry())
        : files(geometry),
          client(testing::need(shm::SchedulePublisher::attach(files.segment))),
          writer(way, files.segment.path(), 0, kRowBytes * geometry.max_batch) {}

    SessionFiles files;
    shm::SchedulePublisher client;
    WriterUnderTest writer;
};

int wait_step(WriterUnderTest& writer, std::uint64_t& step, std::uint32_t& columns) {
    return croupier_writer_wait_step(writer.get(), 0, &step, &columns, nullptr);
}

testing::Failure enqueue_refused_rows(WriterUnderTest& writer, std::uint64_t stride = 1) {
    croupier_rows rows;
    croupier_rows_init(&rows);
    rows.logits = &rows;
    rows.row_stride = stride;
    testing::Failure failure;
    failure.status = croupier_writer_enqueue_rows(writer.get(), nullptr, &rows, &failure.error);
    return failure;
}

}  // namespace

TEST_CASE("a step that is not scheduled yet is busy, and its slot stays as it is") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    CHECK(session.writer.begin(0) == CROUPIER_WRITER_BUSY);
    testing::publish_step(session.client, 2);
    testing::publish_step(session.client, 3);
    session.writer.write(0, some_rows(2));
    session.writer.write(1, some_rows(3));
    const auto before = testing::slice_of(session.files.segment, 0, 0, kRowBytes * 2);
    // Slot 0 still holds step 0, whose decisions nobody has taken.
    CHECK(session.writer.begin(2) == CROUPIER_WRITER_BUSY);
    CHECK(testing::slice_of(session.files.segment, 0, 0, kRowBytes * 2) == before);
    CHECK(session.writer.state().begun == 2);
    session.client.take();
    CHECK(session.writer.begin(2) == CROUPIER_WRITER_BUSY);
    testing::publish_step(session.client, 1);
    session.writer.write(2, some_rows(1));
    CHECK(shm::slice_ready(session.files.segment, 2, 0));
}

TEST_CASE("as many steps as the session has slots may be begun and unfinished, not one more") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 1);
    REQUIRE(session.writer.begin(0) == 0);
    REQUIRE(session.writer.begin(1) == 0);
    // The whole record of step 0 was refused: the client takes it, though its slice never came.
    session.client.take();
    testing::publish_step(session.client, 1);
    CHECK(session.writer.begin(2) == CROUPIER_WRITER_BUSY);
    const auto refused = session.writer.try_enqueue(some_rows(1));
    CHECK(refused.status == (way == Way::host ? -1 : 0));
    session.writer.await_finished(1);
    CHECK(session.writer.begin(2) == 0);
    session.writer.enqueue(some_rows(1));
    session.writer.enqueue(some_rows(1));
    session.writer.await_finished(3);
    CHECK(shm::slice_ready(session.files.segment, 1, 0));
    CHECK(shm::slice_ready(session.files.segment, 2, 0));
}

TEST_CASE("steps that are over, complete or begun cannot be begun again") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 1);
    REQUIRE(session.writer.begin(0) == 0);
    const auto twice = session.writer.try_begin(0);
    CHECK(twice.status == -1);
    CHECK_THAT(twice.error.text, Catch::Contains("step 0 is begun already"));
    session.writer.enqueue(some_rows(1));
    session.writer.await_finished(1);
    croupier_writer_abandon(session.writer.get(), nullptr);
    const auto complete = session.writer.try_begin(0);
    CHECK(complete.status == -1);
    CHECK_THAT(complete.error.text, Catch::Contains("has the whole slice"));
    session.client.take();
    const auto over = session.writer.try_begin(0);
    CHECK(over.status == -1);
    CHECK_THAT(over.error.text, Catch::Contains("step 0 is not in flight; step 1 is"));
}

TEST_CASE("a step is not begun while an older one wants the rank's slice") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 2);
    const auto early = session.writer.try_begin(1);
    CHECK(early.status == -1);
    CHECK_THAT(early.error.text, Catch::Contains("begin step 0 first, or give it up"));
    session.writer.write(0, some_rows(1));
    session.writer.write(1, some_rows(2));
    CHECK(shm::slice_ready(session.files.segment, 1, 0));
}

TEST_CASE("behind a refused enqueue no step is begun until its own is enqueued or abandoned") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    const bool abandons = GENERATE(false, true);
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 1);
    REQUIRE(session.writer.begin(0) == 0);
    const auto stride = GENERATE(std::uint64_t{1}, std::uint64_t{1} << 62U);
    const auto enqueued = enqueue_refused_rows(session.writer, stride);
    REQUIRE(enqueued.status == -1);
    CHECK_THAT(enqueued.error.text, Catch::Contains("row_stride is"));
    const auto refused = session.writer.try_begin(1);
    CHECK(refused.status == -1);
    CHECK_THAT(refused.error.text, Catch::Contains("the last enqueue was refused"));
    if (abandons) {
        REQUIRE(croupier_writer_abandon(session.writer.get(), nullptr) == 0);
        REQUIRE(session.writer.begin(0) == 0);
    }
    session.writer.enqueue(some_rows(1));
    session.writer.await_finished(1);
    session.writer.write(1, some_rows(1));
    CHECK(shm::slice_ready(session.files.segment, 1, 0));
}

TEST_CASE(
    "where several steps are begun nothing is enqueued behind a refused enqueue until they are abandoned") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 1);
    REQUIRE(session.writer.begin(0) == 0);
    REQUIRE(session.writer.begin(1) == 0);
    REQUIRE(enqueue_refused_rows(session.writer).status == -1);
    const auto refused = session.writer.try_enqueue(some_rows(1));
    CHECK(refused.status == -1);
    CHECK_THAT(refused.error.text, Catch::Contains("2 steps are begun"));
    REQUIRE(croupier_writer_abandon(session.writer.get(), nullptr) == 0);
    session.writer.write(0, some_rows(1));
    session.writer.write(1, some_rows(1));
    CHECK(shm::slice_ready(session.files.segment, 1, 0));
}

TEST_CASE("a writer that begins ahead is told the next step it has not begun") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    std::uint64_t step = 99;
    std::uint32_t columns = 0;
    CHECK(wait_step(session.writer, step, columns) == 0);
    testing::publish_step(session.client, 2);
    testing::publish_step(session.client, 3);
    REQUIRE(wait_step(session.writer, step, columns) == 1);
    CHECK((step == 0 && columns == 2));
    REQUIRE(session.writer.begin(0) == 0);
    REQUIRE(wait_step(session.writer, step, columns) == 1);
    CHECK((step == 1 && columns == 3));
    REQUIRE(session.writer.begin(1) == 0);
    CHECK(wait_step(session.writer, step, columns) == 0);
}

TEST_CASE("a writer whose session has ended is told so where it waits for a step, or for its tokens") {
    Session session(Way::host);
    testing::publish_step(session.client, 1);
    session.writer.write(0, some_rows(1));
    const bool closed = GENERATE(true, false);
    session.files.segment.header().state = closed ? proto::SessionState::closed : proto::SessionState::fenced;
    std::uint64_t step = 0;
    std::uint32_t rows = 0;
    croupier_error error{};
    const auto told = [&] {
        const std::uint32_t code = closed ? CROUPIER_ERROR_SESSION_CLOSED : CROUPIER_ERROR_STALE_EPOCH;
        CHECK(error.code == code);
        CHECK_THAT(error.text,
                   Catch::Contains(closed ? "it was closed" : "another writer or client took over"));
        error = {};
    };
    // Hang, and fail by their time limit, where a call waits for its timeout.
    CHECK(croupier_writer_wait_step(session.writer.get(), 3600000, &step, &rows, &error) == -1);
    told();
    CHECK(croupier_writer_wait_tokens(session.writer.get(), 0, 3600000, &error) == -1);
    told();
    // The session may end between the wait for a step and its begin.
    const auto late = session.writer.try_begin(1);
    CHECK(late.status == -1);
    CHECK(late.error.code == (closed ? CROUPIER_ERROR_SESSION_CLOSED : CROUPIER_ERROR_STALE_EPOCH));
}

TEST_CASE("what was begun and not enqueued is forgotten on demand and can be begun again") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 2);
    session.writer.write(0, some_rows(1));
    REQUIRE(session.writer.begin(1) == 0);
    REQUIRE(croupier_writer_abandon(session.writer.get(), nullptr) == 0);
    const auto nothing = session.writer.try_enqueue(some_rows(2));
    CHECK(nothing.status == -1);
    CHECK_THAT(nothing.error.text, Catch::Contains("no step is begun"));
    CHECK_FALSE(shm::slice_ready(session.files.segment, 1, 0));
    session.writer.write(1, some_rows(2));
    CHECK(shm::slice_ready(session.files.segment, 1, 0));
}

TEST_CASE("a fenced writer begins nothing, and what it had begun counts for nothing") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 1);
    testing::publish_step(session.client, 1);
    REQUIRE(session.writer.begin(0) == 0);
    CHECK(session.writer.state().open == 1);
    CHECK(session.writer.state().ended == 0);
    // As a successor's attach does.
    session.files.segment.header().writers[0].epoch.fetch_add(1);
    CHECK(session.writer.state().open == 0);
    CHECK(session.writer.state().ended == 1);
    const auto late = session.writer.try_begin(1);
    CHECK(late.status == -1);
    CHECK(std::string(croupier_writer_error_name(late.error.code)) == "stale_epoch");
    CHECK_THAT(late.error.text, Catch::Contains("was fenced"));
    const auto enqueued = session.writer.try_enqueue(some_rows(1));
    if (way == Way::host) {
        CHECK(enqueued.status == -1);
    } else {
        session.writer.await_finished(1);
    }
    CHECK_FALSE(shm::slice_ready(session.files.segment, 0, 0));
}

TEST_CASE("a complete slice wakes a sleeping sampler") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, 4);
    proto::Bell& bell = session.files.segment.header().bell;
    const std::array heard = {shm::listen_to(bell)};
    session.writer.write(0, some_rows(4));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (bell.rung.load() == heard[0].seen && std::chrono::steady_clock::now() < deadline)
        shm::sleep_on(heard, 0, std::chrono::seconds(10));
    CHECK(bell.rung.load() != heard[0].seen);
}

TEST_CASE("each rank of a session is written by a writer of its own") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 2;
    geometry.shards[0] = {0, 999};
    geometry.shards[1] = {999, 1};
    Session session(way, geometry);
    WriterUnderTest second(way, session.files.segment.path(), 1, 64);
    testing::publish_step(session.client, 2);
    const Rows first_rows = testing::random_rows(geometry, 0, 2, 999, 1);
    const Rows second_rows = testing::random_rows(geometry, 1, 2, 1, 2);
    session.writer.write(0, first_rows);
    CHECK_FALSE(shm::slice_ready(session.files.segment, 0, 1));
    second.write(0, second_rows);
    CHECK(shm::slice_ready(session.files.segment, 0, 1));
    const auto wanted = testing::naive_slice(geometry, 1, 2, {}, second_rows);
    CHECK(testing::slice_of(session.files.segment, 0, 1, wanted.size()) == wanted);
}
