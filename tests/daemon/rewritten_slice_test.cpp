// A slice of which a part is published may be written anew: what samplers made of the part is void.
#include <catch2/catch.hpp>

#include "croupier/writer.h"
#include "shm/logits_publisher.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kIds = 1024;

client::Sequence greedy() {
    client::Sequence sequence;
    sequence.uid = 1;
    sequence.prompt = {1, 2, 3};
    sequence.params.temperature = 0.0;
    return sequence;
}

std::vector<std::uint16_t> row_with(std::uint32_t best, std::uint16_t logit, std::uint32_t second = 0) {
    std::vector<std::uint16_t> row(kIds, 0);
    row[second] = 0x40C0;  // 6
    row[best] = logit;
    return row;
}

client::Session open(const DaemonProcess& daemon) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    const std::string endpoint = daemon.endpoint();
    options.endpoint = endpoint.c_str();
    options.name = "engine";
    options.vocab = kIds;
    options.max_batch = 1;
    options.max_sequences = 1;
    return client::Session(options);
}

}  // namespace

TEST_CASE("a slice that is rewritten after a part of it was published is decided from its final content") {
    const DaemonProcess daemon("{count: 1, wait: spin}");
    client::Session session = open(daemon);
    session.add(greedy());
    const croupier_column column = croupier_column_of(1);
    auto writer = need(gpu_writer::RankWriter::attach(session.segment_path(), 0));
    for (int round = 0; round < 20; ++round) {
        const std::uint64_t step = session.submit({&column, 1});
        const auto first = row_with(5, 0x40A0);
        writer.write_column(step, 0, first.data());
        need(writer.publish(step, 8));
        // The sampler reads ahead what is published: its beats go on while it does.
        const auto plane = daemon.plane();
        const auto& beat = plane.header().samplers[0].heartbeat_ns;
        for (int beats = 0; beats < 2; ++beats) {
            const std::uint64_t seen = beat.load();
            REQUIRE(eventually([&] { return beat.load() != seen; }));
        }
        const auto second = row_with(70, 0x41A0, 900);
        writer.write_column(step, 0, second.data());
        need(writer.publish_all(step));
        const auto decided = session.wait(20000);
        REQUIRE(decided);
        CHECK(decided->decisions[0].token == 70);
    }
    const auto segment = need(shm::Segment::attach(session.segment_path(), shm::Access::read_only));
    auto& lost = segment.header().counter(proto::SessionCounter::writers_lost);
    CHECK(lost.load() == 0);
}

TEST_CASE("a step that is begun again after abandon counts from its first tile, under a new epoch") {
    const DaemonProcess daemon;
    client::Session session = open(daemon);
    session.add(greedy());
    const croupier_column column = croupier_column_of(1);
    croupier_writer_options options;
    croupier_writer_options_init(&options);
    const std::string path = session.segment_path();
    options.segment_path = path.c_str();
    croupier_writer* writer = nullptr;
    REQUIRE(croupier_writer_attach(&options, &writer, nullptr) == 0);
    const std::uint64_t step = session.submit({&column, 1});
    REQUIRE(croupier_writer_begin(writer, step, nullptr) == 0);
    // As a GPU leaves it whose second chunk failed.
    auto segment = need(shm::Segment::attach(path, shm::Access::read_write));
    auto& word = segment.ready(segment.slot_of(step), 0).word;
    const std::uint32_t epoch = segment.header().writers[0].epoch.load();
    word.store(proto::ReadyWord{epoch, proto::ReadyWord::tag_of(step), 8}.pack());
    CHECK(shm::tiles_ready(segment, step, 0) == 8);
    REQUIRE(croupier_writer_abandon(writer, nullptr) == 0);
    CHECK(shm::tiles_ready(segment, step, 0) == 0);
    CHECK(segment.header().writers[0].epoch.load() == epoch + 1);
    REQUIRE(croupier_writer_begin(writer, step, nullptr) == 0);
    const auto row = row_with(70, 0x41A0);
    REQUIRE(croupier_writer_enqueue(writer, nullptr, row.data(), kIds, nullptr) == 0);
    const auto decided = session.wait(20000);
    REQUIRE(decided);
    CHECK(decided->decisions[0].token == 70);
    croupier_writer_detach(writer);
}
