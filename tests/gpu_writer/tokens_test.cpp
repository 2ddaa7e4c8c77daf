// How a step's tokens come back to the memory that its logits left.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "shm/step_claims.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kOwner = 1;

struct Session {
    explicit Session(Way way)
        : files(testing::small_geometry()),
          client(testing::need(shm::SchedulePublisher::attach(files.segment))),
          writer(way, files.segment.path(), 0, std::size_t{2000} * testing::small_geometry().max_batch) {}

    void write(std::uint64_t step, std::uint32_t columns) {
        testing::publish_step(client, columns);
        writer.write(step, testing::random_rows(testing::small_geometry(), 0, columns, 1000, columns));
    }
    void decide(std::uint64_t step, std::uint32_t column, std::uint32_t columns, std::int32_t token) {
        const shm::StepClaims claims(files.segment, step);
        REQUIRE(claims.try_claim(column, kOwner));
        proto::Decision decision;
        decision.token = token;
        if (token < 0) decision.error = proto::DecisionError::nan_logit;
        claims.commit(column, columns, decision);
    }
    int wait(std::uint64_t step, croupier_error* error = nullptr) {
        return croupier_writer_wait_tokens(writer.get(), step, 0, error);
    }
    int enqueue(std::uint64_t step, std::int32_t* tokens, croupier_error* error = nullptr) {
        return croupier_writer_enqueue_tokens(writer.get(), writer.memory().stream(), step, tokens, error);
    }

    int await(std::uint64_t step, std::uint32_t timeout_ms, std::int32_t* tokens,
              croupier_error* error = nullptr) {
        return croupier_writer_enqueue_awaited_tokens(writer.get(), writer.memory().stream(), step,
                                                      timeout_ms, tokens, error);
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    WriterUnderTest writer;
};

}  // namespace

TEST_CASE("tokens come back once every column is decided, whichever was last", "[sanitized]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    const std::vector<std::vector<std::int32_t>> steps = {{7, 999, 0, -1, 12}, {3}, {1, 2, 3, 4, 5, 6, 7, 8}};
    for (std::uint64_t step = 0; step < steps.size(); ++step) {
        const auto columns = static_cast<std::uint32_t>(steps[step].size());
        session.write(step, columns);
        for (std::uint32_t column = columns; column > 0; --column) {
            CHECK(session.wait(step) == 0);
            session.decide(step, column - 1, columns, steps[step][column - 1]);
        }
        CHECK(session.wait(step) == 1);
        REQUIRE(session.enqueue(step, session.writer.memory().token_room()) == 0);
        CHECK(session.writer.memory().tokens(columns) == steps[step]);
        session.client.take();
    }
}

TEST_CASE("tokens that are not there are refused, each by a text that says why") {
    const auto way = GENERATE(Way::host, Way::store);
    if (!testing::can_run(way)) return;
    Session session(way);
    croupier_error error{};
    std::int32_t* room = session.writer.memory().token_room();
    SECTION("of a step that this writer did not begin") {
        testing::publish_step(session.client, 1);
        CHECK(session.wait(0, &error) == -1);
        CHECK(
            std::string(error.text) ==
            "step 0 is not the last that this writer began in its slot: it began none there, or a later one");
    }
    SECTION("of a step that is not decided") {
        session.write(0, 2);
        session.decide(0, 1, 2, 5);
        CHECK(session.enqueue(0, room, &error) == -1);
        CHECK(std::string(error.text) == "step 0 is not decided yet: wait for its tokens first");
    }
    SECTION("of a step whose slot holds a later one") {
        for (std::uint64_t step = 0; step < 3; ++step) {
            if (step < 2) {
                session.write(step, 1);
            } else {
                testing::publish_step(session.client, 1);
            }
            session.decide(step, 0, 1, 5);
            session.client.take();
        }
        CHECK(session.wait(0, &error) == -1);
        CHECK(std::string(error.text) ==
              "the slot of step 0 holds a later step: the scheduler has its tokens");
        CHECK(session.wait(1) == 1);
    }
    SECTION("of a step that was refused whole") {
        session.write(0, 1);
        shm::StepClaims(session.files.segment, 0).refuse(proto::DecisionError::bad_record);
        CHECK(session.wait(0) == 1);
        CHECK(session.enqueue(0, room, &error) == -1);
        CHECK(std::string(error.text) ==
              "step 0 was refused whole: it has no tokens, and the scheduler knows why");
    }
    SECTION("nowhere") {
        session.write(0, 1);
        session.decide(0, 0, 1, 5);
        CHECK(session.enqueue(0, nullptr, &error) == -1);
        CHECK(std::string(error.text) == "tokens is null");
    }
}

TEST_CASE("a GPU's stream waits for tokens that are decided later, step after step") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    // More often than there are places for tokens on their way.
    for (std::uint64_t step = 0; step < 5 * std::uint64_t{testing::small_geometry().slots}; ++step) {
        session.write(step, 2);
        REQUIRE(session.await(step, 20000, session.writer.memory().token_room()) == 0);
        const auto first = static_cast<std::int32_t>(10 * step);
        session.decide(step, 0, 2, first);
        session.decide(step, 1, 2, first + 1);
        CHECK(session.writer.memory().tokens(2) == std::vector<std::int32_t>{first, first + 1});
        session.client.take();
    }
}

TEST_CASE("tokens that are awaited and do not come are -1, and hold up nothing for longer") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    const std::vector<std::int32_t> none = {-1, -1};
    std::int32_t* room = session.writer.memory().token_room();
    croupier_error error{};
    SECTION("in time") {
        session.write(0, 2);
        session.decide(0, 0, 2, 5);
        REQUIRE(session.await(0, 50, room) == 0);
        CHECK(session.writer.memory().tokens(2) == std::vector<std::int32_t>{5, -1});
        CHECK(session.writer.state().late_steps == 1);
        // The next step's tokens come all the same.
        session.decide(0, 1, 2, 6);
        session.client.take();
        session.write(1, 2);
        session.decide(1, 0, 2, 7);
        session.decide(1, 1, 2, 8);
        REQUIRE(session.await(1, 20000, room) == 0);
        CHECK(session.writer.memory().tokens(2) == std::vector<std::int32_t>{7, 8});
    }
    SECTION("of a step that was refused whole") {
        session.write(0, 2);
        shm::StepClaims(session.files.segment, 0).refuse(proto::DecisionError::bad_record);
        REQUIRE(session.await(0, 20000, room) == 0);
        CHECK(session.writer.memory().tokens(2) == none);
    }
    SECTION("of a step that this writer did not begin") {
        CHECK(session.await(0, 0, room, &error) == -1);
        CHECK(std::string(error.text).find("step 0 is not the last that this writer began") == 0);
    }
    SECTION("nowhere") {
        session.write(0, 1);
        CHECK(session.await(0, 0, nullptr, &error) == -1);
        CHECK(std::string(error.text) == "tokens is null");
    }
}

TEST_CASE("a writer that is detached while its stream waits for tokens lets the stream go on") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    session.write(0, 2);
    REQUIRE(session.await(0, 600000, session.writer.memory().token_room()) == 0);
    // Its destructor waits for what was enqueued: within this test's limit, not the ten minutes above.
}
