// Columns of a lean step are decided when their part of it is there, though others are not.
#include <catch2/catch.hpp>
#include <csignal>
#include <random>
#include <utility>
#include <vector>

#include "gpu_writer/column_wants.h"
#include "gpu_writer/lean_layout.h"
#include "gpu_writer/rank_writer.h"
#include "proto/lean_order.h"
#include "shm/step_claims.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kVocab = 20000;
constexpr std::uint32_t kColumns = 64;
constexpr proto::LeanOrder kOrder(kColumns);
// Rows of this daemon's samplers are looked at without a bell.
constexpr const char* kSpinning = "{count: 2, wait: spin}";

EngineShape lean_shape(std::uint32_t tp) {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = tp;
    shape.batch = shape.max_sequences = kColumns;
    shape.max_length = 64;
    shape.lean = true;
    return shape;
}

// What is sent of their rows decides nearly all of them, and no device draws them: a stop token is forbidden.
void admit_filtered(SmallEngine& engine) {
    for (std::uint64_t uid = 1; uid <= kColumns; ++uid) {
        client::Sequence made;
        made.uid = uid;
        made.prompt = {1, 2, 3};
        made.params.seed = uid;
        made.params.temperature = 0.8 + 0.1 * static_cast<double>(uid % 8);
        made.params.min_tokens = 200;
        made.params.flags |= CROUPIER_NO_LOGPROB;
        made.stop_ids = {5, 6};
        engine.admit(made);
    }
}

// A rank's writer that sends some parts of a step, and does not say that the step is there.
class Sender {
  public:
    Sender(const std::string& segment_path, std::uint32_t rank)
        : writer_(need(gpu_writer::RankWriter::attach(segment_path, rank))) {}

    // The step's word by this writer.
    std::uint64_t begin(std::uint64_t step) {
        proto::ReadyWord word = need(writer_.publisher().begin(step));
        word.tiles = proto::ReadyWord::kLean;
        return word.pack();
    }
    void send(std::uint64_t step, std::uint32_t parts, std::uint64_t word) {
        const shm::Segment& segment = writer_.segment();
        const std::uint32_t slot = segment.slot_of(step);
        std::vector<gpu_writer::LeanWant> wants(kColumns);
        std::vector<std::uint32_t> lists(gpu_writer::NamedIds::room_for(segment.geometry()));
        gpu_writer::NamedIds names(lists, kColumns);
        gpu_writer::read_wants(segment, segment.schedule_columns(slot).part(0, kColumns), names, wants);
        lay_rows(step);
        auto shape = gpu_writer::lean_shape(segment.geometry(), writer_.rank(), kColumns);
        shape.names = names.names();
        for (std::uint32_t place = 0; place < kOrder.begin_of(parts); ++place) {
            const std::uint32_t column = kOrder.column_at(place);
            gpu_writer::lay_lean_column(
                shape, column, wants[column], rows_[column],
                {segment.lean(slot, writer_.rank()), segment.logits(slot, writer_.rank())});
        }
        for (std::uint32_t part = 0; part < parts; ++part)
            segment.ready(slot, writer_.rank()).stamps[part].store(word, std::memory_order_release);
    }
    void send_all(std::uint64_t step) {
        lay_rows(step);
        need(writer_.send(step, rows_));
    }
    const shm::Segment& segment() const { return writer_.segment(); }

  private:
    void lay_rows(std::uint64_t step) {
        const auto asked = writer_.columns(step);
        const proto::RankShard shard = writer_.geometry().shards[writer_.rank()];
        values_.assign(kColumns, {});
        rows_.clear();
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            values_[column] = bf16_row(asked[column].load(), kVocab, shard.first_id, shard.count);
            rows_.push_back(values_[column].data());
        }
    }

    gpu_writer::RankWriter writer_;
    std::vector<std::vector<std::uint16_t>> values_;
    std::vector<const void*> rows_;
};

std::vector<std::uint32_t> decided(const shm::Segment& segment, std::uint64_t step) {
    const shm::StepClaims claims(segment, step);
    std::vector<std::uint32_t> columns;
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        if (claims.is_committed(column)) columns.push_back(column);
    }
    return columns;
}

// At least half of the columns of the first `sent` parts are decided, and no other.
void check_decided(const DaemonProcess& daemon, const shm::Segment& segment, std::uint64_t step,
                   std::uint32_t sent) {
    CHECK(eventually([&] { return decided(segment, step).size() * 2 >= kOrder.begin_of(sent); }));
    daemon.await_idle_samplers();
    for (const std::uint32_t column : decided(segment, step))
        CHECK(kOrder.place_of(column) < kOrder.begin_of(sent));
}

}  // namespace

TEST_CASE("a column of a lean step is decided as soon as all ranks have sent it") {
    const DaemonProcess daemon(kSpinning);
    const std::uint32_t tp = GENERATE(1U, 2U);
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(tp));
    admit_filtered(engine);
    engine.steps(2);
    engine.detach_writers();
    std::vector<Sender> ranks;
    for (std::uint32_t rank = 0; rank < tp; ++rank) ranks.emplace_back(engine.segment_path(), rank);
    for (std::uint32_t sent = 0; sent < kOrder.parts(); ++sent) {
        const std::uint64_t step = engine.submit();
        for (std::uint32_t rank = 0; rank + 1 < tp; ++rank)
            ranks[rank].send(step, kOrder.parts() - 1, ranks[rank].begin(step));
        // What one rank has not sent waits for it.
        if (tp > 1) check_decided(daemon, ranks[0].segment(), step, 0);
        Sender& last = ranks.back();
        last.send(step, sent, last.begin(step));
        check_decided(daemon, last.segment(), step, sent);
        for (Sender& rank : ranks) rank.send_all(step);
        engine.collect();
    }
}

TEST_CASE(
    "what a detached writer sent of a step no longer counts, and columns decided from it stay decided") {
    const DaemonProcess daemon(kSpinning);
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(1));
    admit_filtered(engine);
    engine.steps(2);
    engine.detach_writers();
    const std::uint64_t step = engine.submit();
    std::uint64_t of_the_first = 0;
    {
        Sender first(engine.segment_path(), 0);
        of_the_first = first.begin(step);
        first.send(step, 1, of_the_first);
        check_decided(daemon, first.segment(), step, 1);
    }
    Sender second(engine.segment_path(), 0);
    (void)second.begin(step);
    // As from a device that still stores for the first.
    second.send(step, 3, of_the_first);
    check_decided(daemon, second.segment(), step, 1);
    second.send_all(step);
    engine.collect();
}

TEST_CASE("a sampler that is killed while a lean step comes part by part loses nothing") {
    const DaemonProcess daemon("{count: 2, wait: spin, restart_backoff_ms: 1}");
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(1));
    admit_filtered(engine);
    engine.steps(2);
    engine.detach_writers();
    Sender sender(engine.segment_path(), 0);
    for (std::uint32_t round = 0; round < 8; ++round) {
        const std::uint64_t step = engine.submit();
        const std::uint32_t parts = 1 + round % (kOrder.parts() - 1);
        sender.send(step, parts, sender.begin(step));
        // At another moment in each round, from the first column to half of those that were sent.
        const std::size_t enough = round * kOrder.begin_of(parts) / 16;
        REQUIRE(eventually([&] { return decided(sender.segment(), step).size() >= enough; }));
        const pid_t sampler = daemon.sampler_pid(round % 2);
        if (sampler > 0) ::kill(sampler, SIGKILL);
        sender.send_all(step);
        engine.collect();
    }
}

TEST_CASE("a lean step that is sent part by part gives the reference's tokens") {
    const bool in_threads = GENERATE(false, true);
    const DaemonProcess daemon(in_threads ? "{count: 2, threads_per_sampler: 2, pin: false, wait: spin}"
                                          : kSpinning);
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    shape.max_logprobs = 5;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(kColumns);
    engine.steps(6);
}

TEST_CASE("a lean step's order has each column once, and parts of the sizes that it says") {
    for (std::uint32_t columns = 1; columns <= proto::kMaxBatch; columns += columns < 300 ? 1 : 211) {
        const proto::LeanOrder order(columns);
        std::vector<std::uint32_t> sizes(order.parts());
        std::vector<bool> met(columns);
        for (std::uint32_t place = 0; place < columns; ++place) {
            const std::uint32_t column = order.column_at(place);
            REQUIRE(order.place_of(column) == place);
            REQUIRE_FALSE(met[column]);
            met[column] = true;
            REQUIRE(order.part_at(place) < order.parts());
            ++sizes[order.part_at(place)];
        }
        for (std::uint32_t part = 0; part < order.parts(); ++part)
            REQUIRE(sizes[part] == order.size_of(part));
        REQUIRE(order.begin_of(order.parts()) == columns);
        REQUIRE(proto::LeanOrder::has_stamps(columns) == (order.parts() > 1));
    }
}

// Writers and samplers of different builds divide a step alike: these numbers are never made anew.
TEST_CASE("the order of a lean step's columns never changes") {
    struct Kept {
        std::uint32_t columns, parts, second, third, last, begin_of_second;
    };
    const auto kept = GENERATE(Kept{31, 1, 19, 7, 12, 31}, Kept{32, 2, 19, 6, 13, 16},
                               Kept{112, 7, 69, 26, 43, 16}, Kept{256, 7, 157, 58, 99, 37},
                               Kept{1000, 7, 617, 234, 383, 143}, Kept{4096, 7, 2531, 966, 1565, 586});
    const proto::LeanOrder order(kept.columns);
    CHECK(order.parts() == kept.parts);
    CHECK(order.column_at(1) == kept.second);
    CHECK(order.column_at(2) == kept.third);
    CHECK(order.column_at(kept.columns - 1) == kept.last);
    CHECK(order.begin_of(1) == kept.begin_of_second);
}

TEST_CASE("a step with windows is sent row by row, and each column is in the part that samplers look for") {
    std::mt19937 random(1);
    for (std::uint32_t columns = 1; columns <= proto::kMaxBatch; columns += columns < 300 ? 1 : 211) {
        std::vector<std::uint16_t> rows(columns);
        for (std::uint32_t column = 1; column < columns; ++column) {
            const bool follows = random() % 5 != 0 && rows[column - 1] + 1U < proto::kMaxWindowRows;
            rows[column] = follows ? static_cast<std::uint16_t>(rows[column - 1] + 1) : std::uint16_t{0};
        }
        const proto::LeanOrder plain(columns);
        const proto::WindowOrder order(plain);
        std::vector<proto::WindowOrder::Place> places(columns);
        order.lay(rows, places);
        std::vector<bool> met(columns);
        for (std::uint32_t place = 0; place < columns; ++place) {
            const auto [column, part] = places[place];
            REQUIRE_FALSE(met[column]);
            met[column] = true;
            REQUIRE(part == order.part_of(column, rows[column]));
            REQUIRE(part < proto::WindowOrder::parts());
            REQUIRE((proto::LeanOrder::has_stamps(columns) || part == proto::kLeanStamps));
            if (place == 0) continue;
            const auto before = places[place - 1];
            REQUIRE(before.part <= part);
            REQUIRE(rows[before.column] <= rows[column]);
            if (rows[before.column] == rows[column])
                REQUIRE(plain.place_of(before.column) < plain.place_of(column));
        }
    }
}

TEST_CASE("a step whose windows have one row each has the order of one without") {
    constexpr std::uint32_t kMany = 100;
    const proto::LeanOrder plain(kMany);
    std::vector<proto::WindowOrder::Place> places(kMany);
    proto::WindowOrder(plain).lay(std::vector<std::uint16_t>(kMany), places);
    for (std::uint32_t place = 0; place < kMany; ++place)
        CHECK(places[place].column == plain.column_at(place));
}

TEST_CASE("the parts of a step with windows never change") {
    const proto::WindowOrder order(proto::LeanOrder(1280));
    CHECK(order.part_of(385, 0) == 0);
    CHECK(order.part_of(1, 0) == 3);
    for (const auto& [row, part] : {std::pair{1U, 4U}, {2U, 5U}, {3U, 6U}, {63U, 6U}})
        CHECK(order.part_of(385, row) == part);
    CHECK(proto::WindowOrder(proto::LeanOrder(31)).part_of(5, 1) == 6);
    std::vector<std::uint16_t> rows(1280);
    for (std::size_t column = 0; column < rows.size(); ++column)
        rows[column] = static_cast<std::uint16_t>(column % 5);
    std::vector<proto::WindowOrder::Place> places(rows.size());
    order.lay(rows, places);
    for (const auto& [place, column] :
         {std::pair{0U, 0U}, {1U, 115U}, {255U, 1165U}, {256U, 791U}, {1279U, 489U}})
        CHECK(places[place].column == column);
}
