// What is asked of a lean step's writer is laid where a step of rows has it, also while the worker's stream
// waits for the tokens that it is for.
#include "shm/block_requests.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "gpu_writer/step_watcher.h"
#include "proto/lean_part.h"
#include "shm/logits_publisher.h"
#include "shm/step_claims.h"
#include "testing/moved_counters.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::Bytes;
using testing::SessionFiles;
using testing::soon;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kColumns = 3;
constexpr std::uint32_t kOwner = 1;

proto::Geometry lean_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.vocab = 5000;
    geometry.tp = 2;
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = proto::kLeanGranule;
    proto::fill_even_shards(geometry);
    return geometry;
}

struct Session {
    explicit Session(Way its_way, std::uint32_t its_rank)
        : way(its_way),
          files(lean_geometry()),
          client(testing::need(shm::SchedulePublisher::attach(files.segment))),
          rank(its_rank),
          rows(testing::random_rows(lean_geometry(), rank, kColumns, lean_geometry().shards[rank].count, 1)),
          writer(way, files.segment.path(), rank, rows.bytes.size()) {}

    void send() {
        testing::publish_step(client, kColumns);
        REQUIRE(writer.begin(0) == 0);
        writer.enqueue(rows);
        if (way == Way::copied) spoil_rows();
        REQUIRE(soon([&] { return shm::slice_ready(files.segment, 0, rank); }));
    }
    // Behind what the stream holds of the step.
    void spoil_rows() { writer.memory().put(Bytes(rows.bytes.size(), 0xEE)); }
    // A copy to pageable memory waits in CUDA for the stream, which waits for the tokens: what the thread
    // holds there meanwhile, the answer may not need.
    std::future<std::vector<std::int32_t>> fetch_tokens() {
        auto& memory = writer.memory();
        REQUIRE(croupier_writer_enqueue_awaited_tokens(writer.get(), memory.stream(), 0, 20000,
                                                       memory.token_room(), nullptr) == 0);
        auto tokens = std::async(std::launch::async, [&memory] { return memory.tokens(kColumns); });
        // Nothing tells that a thread is in that call; before it the test would show less.
        CHECK(tokens.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
        return tokens;
    }

    shm::BlockRequests requests() const { return {files.segment, 0, shm::writer_epochs(files.segment)}; }
    // Of the rank, from the slice; the other rank of the session has no writer.
    bool answered(std::uint32_t column) const { return requests().unanswered(column, rank) == 0; }
    Bytes block(std::uint32_t column, std::uint32_t block) const {
        constexpr std::size_t kBytes = std::size_t{proto::kBlockIds} * 2;
        const Bytes slice =
            testing::slice_of(files.segment, 0, rank, (std::size_t{block} + 1) * kColumns * kBytes);
        const auto at =
            slice.begin() + static_cast<std::ptrdiff_t>((std::size_t{block} * kColumns + column) * kBytes);
        return {at, at + kBytes};
    }
    void decide(std::uint32_t column) {
        const shm::StepClaims claims(files.segment, 0);
        REQUIRE(claims.try_claim(column, kOwner));
        proto::Decision decision;
        decision.token = static_cast<std::int32_t>(column) + 7;
        claims.commit(column, kColumns, decision);
    }

    Way way;
    void decide_all(std::uint64_t step) {
        const shm::StepClaims claims(files.segment, step);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            REQUIRE(claims.try_claim(column, kOwner));
            claims.commit(column, kColumns, proto::Decision{});
        }
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    std::uint32_t rank;
    testing::Rows rows;
    WriterUnderTest writer;
};

}  // namespace

TEST_CASE("a rank's part of a block request has none of the next rank's blocks", "[lean]") {
    const std::vector<std::uint64_t> all(4, ~std::uint64_t{0});
    for (const std::uint32_t first : {0U, 5U, 64U, 70U}) {
        for (const std::uint32_t blocks : {1U, 63U, 64U, 65U, 100U}) {
            std::vector<std::uint64_t> own((blocks + 63) / 64);
            gpu_writer::own_bits(all, first, blocks, own);
            INFO("from " << first << " on, " << blocks);
            for (std::uint32_t i = 0; i < own.size() * 64; ++i)
                CHECK((own[i / 64] >> i % 64 & 1) == (i < blocks));
        }
    }
}

TEST_CASE("a block request is answered while the worker's stream waits for the step's tokens", "[lean]") {
    const auto way = GENERATE(Way::host, Way::automatic, Way::copied);
    const std::uint32_t rank = GENERATE(0U, 1U);
    if (!testing::can_run(way)) return;
    Session session(way, rank);
    session.send();
    std::future<std::vector<std::int32_t>> tokens;
    // A host's writer would wait in the call.
    if (way != Way::host) tokens = session.fetch_tokens();

    const Bytes whole = testing::naive_slice(lean_geometry(), rank, kColumns, {}, session.rows);
    const std::uint32_t first = lean_geometry().shards[rank].first_block();
    const std::uint32_t own = lean_geometry().shards[rank].blocks();
    std::vector<std::uint64_t> bits(session.requests().bits(0).size());
    for (std::uint32_t block = 0; block < own; block += 3) {
        bits[(first + block) / 64] |= std::uint64_t{1} << ((first + block) % 64);
    }
    for (const std::uint32_t column : {2U, 0U}) session.requests().ask(column, bits);
    for (const std::uint32_t column : {2U, 0U}) {
        REQUIRE(soon([&] { return session.answered(column); }));
        for (std::uint32_t block = 0; block < own; block += 3) {
            constexpr std::ptrdiff_t kBytes = std::ptrdiff_t{proto::kBlockIds} * 2;
            const auto at = whole.begin() + (std::ptrdiff_t{block} * kColumns + column) * kBytes;
            CHECK(session.block(column, block) == Bytes(at, at + kBytes));
        }
    }
    for (std::uint32_t column = 0; column < kColumns; ++column) session.decide(column);
    if (way == Way::host) return;
    CHECK(tokens.get() == std::vector<std::int32_t>{7, 8, 9});
    CHECK(session.writer.state().late_steps == 0);
}

TEST_CASE("a block request for which there is no room yet is tried again, and no other waits for it",
          "[lean]") {
    SessionFiles files(lean_geometry());
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    auto publisher = testing::need(shm::LogitsPublisher::attach(files.segment, 0));
    testing::publish_step(client, kColumns);
    std::atomic<int> refused = 0;
    std::atomic<int> answered = 0;
    gpu_writer::StepWatcher watcher(
        files.segment, 0, {[&](const gpu_writer::WatchedStep&, const gpu_writer::BlockRequest& request) {
            if (request.column == 1 && refused++ < 3) return false;
            ++answered;
            shm::BlockRequests(files.segment, 0, shm::writer_epochs(files.segment))
                .answer(request.column, 0)
                .store(request.word, std::memory_order_release);
            return true;
        }});
    gpu_writer::BegunStep step;
    step.columns = kColumns;
    watcher.watch(step);
    REQUIRE(publisher.begin(0));
    REQUIRE(publisher.publish_all(0));
    const shm::BlockRequests requests(files.segment, 0, shm::writer_epochs(files.segment));
    std::vector<std::uint64_t> bits(requests.bits(0).size());
    bits[0] = 1;
    for (const std::uint32_t column : {1U, 2U}) requests.ask(column, bits);
    for (const std::uint32_t column : {1U, 2U})
        REQUIRE(soon([&] { return requests.unanswered(column, 0) == 0; }));
    CHECK(refused == 4);
    CHECK(answered == 2);
}

TEST_CASE("a block request whose word was answered 2^28 steps ago is answered", "[lean]") {
    SessionFiles files(lean_geometry());
    auto publisher = testing::need(shm::LogitsPublisher::attach(files.segment, 0));
    std::atomic<int> answered = 0;
    gpu_writer::StepWatcher watcher(
        files.segment, 0, {[&](const gpu_writer::WatchedStep& step, const gpu_writer::BlockRequest& request) {
            ++answered;
            shm::BlockRequests(files.segment, step.begun.step, shm::writer_epochs(files.segment))
                .answer(request.column, 0)
                .store(request.word, std::memory_order_release);
            return true;
        }});
    gpu_writer::BegunStep step;
    step.columns = kColumns;
    int watched = 0;
    for (const std::uint64_t number : {std::uint64_t{0}, testing::kTagPeriod}) {
        testing::move_counters(files.segment, number);
        auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
        REQUIRE(testing::publish_step(client, kColumns) == number);
        step.step = number;
        ++watched;
        watcher.watch(step);
        REQUIRE(publisher.publish_all(number));
        const shm::BlockRequests requests(files.segment, number, shm::writer_epochs(files.segment));
        std::vector<std::uint64_t> bits(requests.bits(0).size());
        bits[0] = 1;
        requests.ask(1, bits);
        REQUIRE(soon([&] { return requests.unanswered(1, 0) == 0; }));
        CHECK(answered == watched);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            const shm::StepClaims claims(files.segment, number);
            REQUIRE(claims.try_claim(column, kOwner));
            claims.commit(column, kColumns, proto::Decision{});
        }
        client.take();
        // For the next one.
        files.segment.release(shm::Role::client);
    }
}

TEST_CASE("what was on its way and will not come is answered once more", "[lean]") {
    SessionFiles files(lean_geometry());
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    auto publisher = testing::need(shm::LogitsPublisher::attach(files.segment, 0));
    testing::publish_step(client, kColumns);
    std::atomic<int> asked = 0;
    std::atomic<int> rested = 0;
    const bool rests = GENERATE(false, true);
    gpu_writer::StepWatcher::Calls calls;
    calls.answer = [&](const gpu_writer::WatchedStep&, const gpu_writer::BlockRequest&) {
        ++asked;
        return true;
    };
    calls.rest = [&](const gpu_writer::WatchedStep&) {
        ++rested;
        return rests;
    };
    calls.stays = [](const gpu_writer::WatchedStep&) { return true; };
    gpu_writer::StepWatcher watcher(files.segment, 0, calls);
    gpu_writer::BegunStep step;
    step.columns = kColumns;
    watcher.watch(step);
    REQUIRE(publisher.begin(0));
    REQUIRE(publisher.publish_all(0));
    const shm::BlockRequests requests(files.segment, 0, shm::writer_epochs(files.segment));
    std::vector<std::uint64_t> bits(requests.bits(0).size());
    bits[0] = 1;
    requests.ask(1, bits);
    REQUIRE(soon([&] { return asked >= 1; }));
    const int before = asked;
    if (!rests) watcher.repeat_answers(0);
    REQUIRE(soon([&] { return asked > before; }));
    // After a second.
    REQUIRE(soon([&] { return rested > 0; }));
}

TEST_CASE("a lean step's tokens are awaited behind its enqueue, not before", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    Session session(Way::automatic, 0);
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    croupier_error error{};
    auto& memory = session.writer.memory();
    CHECK(croupier_writer_enqueue_awaited_tokens(session.writer.get(), memory.stream(), 0, 20000,
                                                 memory.token_room(), &error) != 0);
    CHECK_THAT(error.text, Catch::Matchers::Contains("step 0 is not enqueued yet"));
    session.writer.enqueue(session.rows);
    auto tokens = session.fetch_tokens();
    for (std::uint32_t column = 0; column < kColumns; ++column) session.decide(column);
    CHECK(tokens.get() == std::vector<std::int32_t>{7, 8, 9});
}

TEST_CASE("tokens come to a stream that waits for them only after a first block request", "[lean]") {
    const auto way = GENERATE(Way::automatic, Way::copied);
    if (!testing::can_run(way)) return;
    Session session(way, 0);
    session.send();
    std::vector<std::uint64_t> bits(session.requests().bits(0).size());
    bits[0] = 1;
    session.requests().ask(1, bits);
    REQUIRE(soon([&] { return session.answered(1); }));
    const Bytes first = testing::naive_slice(lean_geometry(), 0, kColumns, {}, session.rows);
    constexpr std::ptrdiff_t kBytes = std::ptrdiff_t{proto::kBlockIds} * 2;
    CHECK(session.block(1, 0) == Bytes(first.begin() + kBytes, first.begin() + 2 * kBytes));
    auto tokens = session.fetch_tokens();
    session.requests().ask(2, bits);
    REQUIRE(soon([&] { return session.answered(2); }));
    for (std::uint32_t column = 0; column < kColumns; ++column) session.decide(column);
    CHECK(tokens.get() == std::vector<std::int32_t>{7, 8, 9});
}

TEST_CASE("tokens that are late are missing, and nothing waits for block requests any more", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    Session session(Way::automatic, 0);
    session.send();
    auto& memory = session.writer.memory();
    REQUIRE(croupier_writer_enqueue_awaited_tokens(session.writer.get(), memory.stream(), 0, 20,
                                                   memory.token_room(), nullptr) == 0);
    CHECK(memory.tokens(kColumns) == std::vector<std::int32_t>{-1, -1, -1});
    CHECK(session.writer.state().late_steps == 1);
}

TEST_CASE("a writer can go while its step may still have block requests", "[lean]") {
    const auto way = GENERATE(Way::host, Way::automatic, Way::copied);
    const bool asked = GENERATE(false, true);
    if (!testing::can_run(way)) return;
    Session session(way, 0);
    session.send();
    if (!asked) return;
    std::vector<std::uint64_t> bits(session.requests().bits(0).size());
    bits[0] = 1;
    session.requests().ask(1, bits);
    CHECK(soon([&] { return session.answered(1); }));
}

TEST_CASE("rows that are copied may be written over behind each step, whatever is asked for", "[lean]") {
    const auto way = GENERATE(Way::host, Way::copied);
    if (!testing::can_run(way)) return;
    constexpr std::uint32_t kSteps = 40;
    constexpr std::size_t kBytes = std::size_t{proto::kBlockIds} * 2;
    Session session(way, 1);
    const proto::RankShard shard = lean_geometry().shards[1];
    for (std::uint32_t step = 0; step < kSteps; ++step) {
        const testing::Rows rows = testing::random_rows(lean_geometry(), 1, kColumns, shard.count, step + 1);
        const Bytes whole = testing::naive_slice(lean_geometry(), 1, kColumns, {}, rows);
        testing::publish_step(session.client, kColumns);
        REQUIRE(soon([&] { return session.writer.begin(step) == 0; }));
        session.writer.enqueue(rows);
        session.spoil_rows();
        REQUIRE(soon([&] { return shm::slice_ready(session.files.segment, step, 1); }));
        const shm::BlockRequests requests(session.files.segment, step,
                                          shm::writer_epochs(session.files.segment));
        const std::uint32_t column = step % kColumns;
        const std::uint32_t block = step * 7 % shard.blocks();
        std::vector<std::uint64_t> bits(requests.bits(0).size());
        bits[(shard.first_block() + block) / 64] = std::uint64_t{1} << ((shard.first_block() + block) % 64);
        requests.ask(column, bits);
        REQUIRE(soon([&] { return requests.unanswered(column, 1) == 0; }));
        const std::size_t end = (std::size_t{block} * kColumns + column + 1) * kBytes;
        const Bytes slice = testing::slice_of(session.files.segment, step, 1, end);
        CHECK(std::equal(slice.end() - kBytes, slice.end(),
                         whole.begin() + static_cast<std::ptrdiff_t>(end - kBytes)));
        session.decide_all(step);
        session.client.take();
    }
}
