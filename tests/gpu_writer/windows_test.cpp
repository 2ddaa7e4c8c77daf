// Steps with windows: rows in any order, and what each was computed from, by a host's writer and a GPU's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "gpu_writer/column_wants.h"
#include "proto/schedule_slot.h"
#include "shm/sequence_table.h"
#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using testing::Bytes;
using testing::Failure;
using testing::LeanSession;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kColumns = testing::kLeanColumns;
constexpr std::uint32_t kOthers = 2;  // rows of no column

// What an engine enqueues of the columns' rows, one behind the other in its memory: rows in another order,
// and the arrays behind them.
class Scattered {
  public:
    Scattered(const Rows& in_order, std::uint32_t seed, bool has_holes = false) : stride_(in_order.stride) {
        std::mt19937 random(seed);
        std::vector<std::int32_t> row_of(kColumns + kOthers);
        std::iota(row_of.begin(), row_of.end(), 0);
        std::shuffle(row_of.begin(), row_of.end(), random);
        const std::size_t row = in_order.bytes.size() / kColumns;
        bytes_.assign((kColumns + kOthers) * row, 0x77);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            const auto from = in_order.bytes.begin() + static_cast<std::ptrdiff_t>(column * row);
            std::copy_n(
                from, row,
                bytes_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row_of[column]) * row));
        }
        row_of.resize(kColumns);
        if (has_holes) row_of[kColumns - 1] = -1;
        std::vector<std::int32_t> inputs, parents, positions;
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            inputs.push_back(static_cast<std::int32_t>(random() % 1000));
            parents.push_back(static_cast<std::int32_t>(random() % (column + 1)));
            positions.push_back(static_cast<std::int32_t>(random() % 50));
            words_.push_back(proto::RowInput{row_of[column] < 0 ? proto::RowInput::kNone : inputs[column],
                                             static_cast<std::uint32_t>(parents[column])}
                                 .pack());
        }
        bytes_.resize((bytes_.size() + 15) / 16 * 16);
        for (const auto* numbers : {&row_of, &inputs, &parents, &positions}) {
            at_.push_back(bytes_.size());
            const auto* begin = reinterpret_cast<const unsigned char*>(numbers->data());
            bytes_.insert(bytes_.end(), begin, begin + numbers->size() * sizeof(std::int32_t));
        }
    }

    const Bytes& bytes() const { return bytes_; }
    // Where the engine has put the bytes.
    croupier_rows rows_at(const void* place) const {
        croupier_rows rows;
        croupier_rows_init(&rows);
        rows.logits = place;
        rows.row_stride = stride_;
        rows.row_of = numbers_at(place, 0);
        rows.inputs = numbers_at(place, 1);
        rows.parents = numbers_at(place, 2);
        rows.positions = numbers_at(place, 3);
        return rows;
    }
    const std::vector<std::uint64_t>& words() const { return words_; }

  private:
    const std::int32_t* numbers_at(const void* place, std::size_t which) const {
        return reinterpret_cast<const std::int32_t*>(static_cast<const unsigned char*>(place) + at_[which]);
    }

    std::uint64_t stride_;
    Bytes bytes_;
    std::vector<std::size_t> at_;
    std::vector<std::uint64_t> words_;
};

Failure try_enqueue(WriterUnderTest& writer, const croupier_rows& rows) {
    Failure failure;
    failure.status =
        croupier_writer_enqueue_rows(writer.get(), writer.memory().stream(), &rows, &failure.error);
    return failure;
}

void enqueue(WriterUnderTest& writer, const Scattered& scattered) {
    const Failure failure = try_enqueue(writer, scattered.rows_at(writer.memory().put(scattered.bytes())));
    INFO(failure.error.text);
    REQUIRE(failure.status == 0);
}

std::unique_ptr<testing::CapturedGraph> capture(WriterUnderTest& writer, const Scattered& some) {
    const void* at = writer.memory().put(some.bytes());
    writer.memory().synchronise();
    Failure failure;
    auto graph = writer.memory().capture([&] { failure = try_enqueue(writer, some.rows_at(at)); });
    INFO(failure.error.text);
    REQUIRE(failure.status == 0);
    return graph;
}

proto::Geometry rows_geometry(std::uint32_t tp) {
    proto::Geometry geometry = testing::small_geometry();
    geometry.slots = 3;
    geometry.tp = tp;
    geometry.has_summaries = 1;
    proto::fill_even_shards(geometry);
    return geometry;
}

constexpr std::size_t kRoom = std::size_t{64} * 1024;

}  // namespace

TEST_CASE("whole rows of windows come from any order, with what they were computed from", "[sanitized]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy, Way::automatic);
    if (!testing::can_run(way)) return;
    const std::uint32_t tp = GENERATE(1U, 2U);
    const proto::Geometry geometry = rows_geometry(tp);
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    std::vector<std::unique_ptr<WriterUnderTest>> ranks;
    for (std::uint32_t rank = 0; rank < tp; ++rank)
        ranks.push_back(std::make_unique<WriterUnderTest>(way, files.segment.path(), rank, kRoom));
    for (std::uint32_t step = 0; step < 5; ++step) {
        REQUIRE(testing::publish_window(client) == step);
        for (std::uint32_t rank = 0; rank < tp; ++rank) {
            const Rows rows = testing::random_rows(geometry, rank, kColumns, 1024, 10 * step + rank);
            const Scattered scattered(rows, step);
            REQUIRE(ranks[rank]->begin(step) == 0);
            enqueue(*ranks[rank], scattered);
            ranks[rank]->await_finished(step + 1);
            INFO("step " << step << ", rank " << rank);
            CHECK(testing::inputs_of(files.segment, step, rank) == scattered.words());
            const Bytes wanted = testing::naive_slice(geometry, rank, kColumns, {}, rows);
            REQUIRE(testing::slice_of(files.segment, step, rank, wanted.size()) == wanted);
        }
        client.take();
    }
}

TEST_CASE("a captured enqueue of windows finds other rows and inputs at each replay", "[sanitized]") {
    const auto way = GENERATE(Way::store, Way::automatic);
    if (!testing::can_run(way)) return;
    const proto::Geometry geometry = rows_geometry(1);
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, kRoom);
    const auto graph = capture(writer, Scattered(testing::random_rows(geometry, 0, kColumns, 1024, 0), 0));
    for (std::uint32_t step = 0; step < 7; ++step) {
        const Rows rows = testing::random_rows(geometry, 0, kColumns, 1024, step + 1);
        const Scattered scattered(rows, step + 1);
        const bool windows = step % 3 != 1;
        REQUIRE((windows ? testing::publish_window(client) : testing::publish_step(client, kColumns)) ==
                step);
        writer.memory().put(scattered.bytes());
        REQUIRE(writer.begin(step) == 0);
        graph->replay();
        writer.await_finished(step + 1);
        INFO("step " << step);
        if (windows) CHECK(testing::inputs_of(files.segment, step, 0) == scattered.words());
        const Bytes wanted = testing::naive_slice(geometry, 0, kColumns, {}, rows);
        REQUIRE(testing::slice_of(files.segment, step, 0, wanted.size()) == wanted);
        client.take();
    }
    CHECK(writer.state().empty_launches == 0);
}

TEST_CASE("lean rows of windows are sent, and asked for, from any order", "[lean][sanitized]") {
    const auto way = GENERATE(Way::host, Way::automatic, Way::copied);
    if (!testing::can_run(way)) return;
    const bool replays = GENERATE(false, true);
    if (replays && way == Way::host) return;
    proto::Geometry geometry = testing::lean_geometry();
    geometry.max_windows = GENERATE(0U, 1U, 2U);
    LeanSession session(way, geometry);
    std::unique_ptr<testing::CapturedGraph> graph;
    if (replays) graph = capture(session.writer, Scattered(session.rows(0), 0));
    for (std::uint64_t step = 0; step < 7; ++step) {
        const auto seed = static_cast<std::uint32_t>(step);
        const Rows rows = session.rows(seed + 1);
        const Scattered scattered(rows, seed);
        const bool windows = step % 3 != 1 || geometry.max_windows != 0;
        const std::uint32_t first = geometry.max_windows == 2 ? 1 + seed % 2 : kColumns;
        REQUIRE((windows ? testing::publish_window(session.client, first)
                         : testing::publish_step(session.client, kColumns)) == step);
        REQUIRE(session.writer.begin(step) == 0);
        if (graph == nullptr) {
            enqueue(session.writer, scattered);
        } else {
            session.writer.memory().put(scattered.bytes());
            graph->replay();
        }
        session.await(step);
        INFO("step " << step);
        if (windows) CHECK(testing::inputs_of(session.files.segment, step, 0) == scattered.words());
        // Where rows are copied the engine may write over them, and over its arrays everywhere.
        if (way == Way::copied) session.writer.memory().put(Bytes(scattered.bytes().size(), 0xEE));
        // A window's rows stand in one place, one after another.
        const std::uint32_t place = geometry.max_windows == 0 ? 2 : geometry.max_windows - 1;
        CHECK(session.requested_block(step, place) == session.that_block(rows));
        session.decide(step);
        session.writer.await_finished(step + 1);
        session.client.take();
    }
    CHECK(session.writer.state().empty_launches == 0);
}

TEST_CASE("what a GPU sends of a window's rows is what it sends of plain ones", "[lean]") {
    const auto way = GENERATE(Way::automatic, Way::copied);
    if (!testing::can_run(way)) return;
    LeanSession session(way, testing::lean_geometry());
    LeanSession beside(way, testing::lean_geometry());
    const auto part_of = [](const LeanSession& of, std::uint64_t step) {
        const shm::Segment& segment = of.files.segment;
        const auto* part = reinterpret_cast<const unsigned char*>(segment.lean(segment.slot_of(step), 0));
        return Bytes(part, part + proto::lean_layout_of(segment.geometry(), 0).bytes);
    };
    for (std::uint64_t step = 0; step < 4; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step) + 1);
        testing::publish_window(session.client);
        testing::publish_step(beside.client, kColumns);
        for (LeanSession* each : {&session, &beside}) REQUIRE(each->writer.begin(step) == 0);
        enqueue(session.writer, Scattered(rows, static_cast<std::uint32_t>(step)));
        beside.writer.enqueue(rows);
        for (LeanSession* each : {&session, &beside}) each->await(step);
        INFO("step " << step);
        CHECK(part_of(session, step) == part_of(beside, step));
        for (LeanSession* each : {&session, &beside}) {
            each->decide(step);
            each->writer.await_finished(step + 1);
            each->client.take();
        }
    }
}

TEST_CASE("of a window's rows the head alone is sent whole where they share a place") {
    proto::Geometry geometry = testing::lean_geometry();
    geometry.max_windows = GENERATE(0U, 2U);
    SessionFiles files(geometry);
    shm::SequenceTable table(files.segment);
    for (const std::uint64_t uid : {100U, 101U}) {
        shm::NewSequence sequence;
        sequence.uid = uid;
        sequence.params.temperature = 1.0;
        sequence.params.rng = proto::Rng::vllm;
        REQUIRE(testing::need(table.add(sequence)) == uid - 100);
    }
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    std::vector<proto::ScheduleColumn> asked(kColumns);
    for (std::uint32_t i = 0; i < kColumns; ++i) {
        asked[i].sequence_slot = i / 2;
        asked[i].sequence_uid = 100 + i / 2;
        asked[i].row = static_cast<std::uint16_t>(i % 2);
    }
    testing::need(client.publish(asked, proto::kWindows));
    std::vector<std::uint32_t> lists(gpu_writer::NamedIds::room_for(geometry));
    gpu_writer::NamedIds names(lists, kColumns);
    std::vector<gpu_writer::LeanWant> wants(kColumns);
    gpu_writer::read_wants(files.segment, files.segment.schedule_columns(0).part(0, kColumns), names, wants);
    const bool shared = geometry.max_windows != 0;
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        INFO("column " << column);
        CHECK(wants[column].flags.has(gpu_writer::Want::whole) == (!shared || asked[column].row == 0));
        CHECK(wants[column].place == (shared ? column / 2 : column));
    }
}

TEST_CASE("a window's row that there is not has no input, by each way") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    const proto::Geometry geometry = rows_geometry(1);
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, kRoom);
    testing::publish_window(client);
    REQUIRE(writer.begin(0) == 0);
    const Scattered scattered(testing::random_rows(geometry, 0, kColumns, 1024, 1), 1, true);
    enqueue(writer, scattered);
    writer.await_finished(1);
    CHECK(testing::inputs_of(files.segment, 0, 0) == scattered.words());
    const auto last = proto::RowInput::unpack(testing::inputs_of(files.segment, 0, 0).back());
    CHECK(last.token == proto::RowInput::kNone);
}

TEST_CASE("windows without inputs are refused, also where a graph would send them", "[lean]") {
    const auto way = GENERATE(Way::host, Way::automatic);
    if (!testing::can_run(way)) return;
    LeanSession session(way, testing::lean_geometry());
    const Rows rows = session.rows(1);
    testing::publish_window(session.client);
    REQUIRE(session.writer.begin(0) == 0);
    const Failure refused = session.writer.try_enqueue(rows);
    CHECK(refused.status == -1);
    CHECK_THAT(refused.error.text,
               Catch::Contains("step 0 has windows") && Catch::Contains("`inputs` is null"));
    enqueue(session.writer, Scattered(rows, 1));
    session.await(0);
    if (way == Way::host) return;
    session.decide(0);
    session.writer.await_finished(1);
    // A graph without inputs, and a step that it might find.
    testing::publish_step(session.client, kColumns);
    testing::publish_window(session.client);
    LeanSession::Graph graph;
    REQUIRE(session.try_capture(rows.stride, graph).status == 0);
    REQUIRE(session.writer.begin(1) == 0);
    const Failure later = session.writer.try_begin(2);
    CHECK(later.status == -1);
    CHECK_THAT(later.error.text,
               Catch::Contains("step 2 has windows") && Catch::Contains("gave no `inputs`"));
}
