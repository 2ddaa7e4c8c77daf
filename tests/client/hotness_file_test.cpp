// A session's order out of a file: what the daemon's segment then holds, and what is refused before it is
// asked.
#include "shm/hotness_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "client/options.h"
#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "hot_sets/ranking.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kVocab = 1000;

// Each count stands at several ids, and neither the first ids nor the last are the hottest.
proto::HotnessOrder some_order(std::uint32_t shift) {
    std::vector<double> counts(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id) counts[id] = (id * 389 + shift) % 251;
    return hot_sets::rank_by_count("tiny", 0.05, counts);
}

class HotnessFile {
  public:
    explicit HotnessFile(std::uint32_t shift = 0) : order_(some_order(shift)) {
        testing::need(shm::save_hotness(path_, order_));
    }
    const char* path() const { return path_.c_str(); }
    const std::vector<std::int32_t>& ids() const { return order_.ids; }
    std::vector<std::uint32_t> blocks() const { return proto::rank_blocks(order_); }

  private:
    testing::ShmDirectory directory_;
    std::string path_ = directory_.path() + "/tiny.hot";
    proto::HotnessOrder order_;
};

client::OpenOptions options_for(const std::string& endpoint, const char* hotness_file) {
    client::OpenOptions options;
    options.endpoint = endpoint.c_str();
    options.name = "ordered";
    options.vocab = kVocab;
    options.tp = 3;
    options.dtype = CROUPIER_FP32;
    options.hotness_file = hotness_file;
    return options;
}

// The model's order, and behind it what each rank has of it.
std::vector<std::uint32_t> order_in(const client::Session& session) {
    const auto segment = testing::need(shm::Segment::attach(session.segment_path(), shm::Access::read_only));
    std::vector<std::uint32_t> all(segment.model_order().begin(), segment.model_order().end());
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        all.insert(all.end(), segment.order(rank).begin(), segment.order(rank).end());
    }
    return all;
}

std::vector<std::uint32_t> among_three_ranks(const HotnessFile& file) {
    proto::Geometry geometry;
    geometry.vocab = kVocab;
    geometry.tp = 3;
    proto::fill_even_shards(geometry);
    std::vector<std::uint32_t> all = file.blocks();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        const auto own = proto::blocks_of_rank(geometry, rank, file.blocks());
        all.insert(all.end(), own.begin(), own.end());
    }
    return all;
}

shm::Error refusal_of(const croupier_open_options& options) {
    croupier_session* session = nullptr;
    croupier_error error{};
    REQUIRE(croupier_open(&options, &session, &error) == -1);
    return {static_cast<shm::Errc>(error.code), error.text};
}

// The greedy token of a row in which one id is likely.
std::int32_t greedy_token(client::Session& session, std::int32_t likely) {
    const auto segment = testing::need(shm::Segment::attach(session.segment_path(), shm::Access::read_only));
    client::Sequence sequence;
    sequence.uid = 1;
    sequence.params.temperature = 0.0;
    sequence.prompt = {1};
    session.add(sequence);
    const croupier_column column = croupier_column_of(sequence.uid);
    const std::uint64_t step = session.submit({&column, 1});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        const auto& shard = segment.geometry().shards[rank];
        std::vector<float> slice(shard.count);
        for (std::uint32_t i = 0; i < shard.count; ++i) {
            slice[i] = static_cast<std::int32_t>(shard.first_id + i) == likely ? 5.0F : -5.0F;
        }
        auto writer = testing::need(gpu_writer::RankWriter::attach(session.segment_path(), rank));
        writer.write_column(step, 0, slice.data());
        testing::need(writer.publish_all(step));
    }
    const auto decided = session.wait(20000);
    REQUIRE(decided);
    REQUIRE(decided->decisions[0].error == 0);
    return decided->decisions[0].token;
}

}  // namespace

TEST_CASE("a session that is opened with a hotness file has the order that it holds") {
    const testing::DaemonProcess daemon;
    const HotnessFile file;
    const std::string endpoint = daemon.endpoint();
    client::Session session(options_for(endpoint, file.path()));
    CHECK(order_in(session) == among_three_ranks(file));
    CHECK(greedy_token(session, file.ids()[700]) == file.ids()[700]);
    session.close();

    auto by_blocks = options_for(endpoint, nullptr);
    const std::vector<std::uint32_t> blocks = file.blocks();
    by_blocks.order = blocks.data();
    CHECK(order_in(client::Session(by_blocks)) == among_three_ranks(file));
}

TEST_CASE("a session is resumed with the hotness file that it was opened with, and no other") {
    const testing::DaemonProcess daemon;
    const HotnessFile file;
    const std::string endpoint = daemon.endpoint();
    auto options = options_for(endpoint, file.path());
    { const client::Session died(options); }
    options.resume = 1;
    const HotnessFile newer(1);
    options.hotness_file = newer.path();
    CHECK_THAT(refusal_of(options).message, Contains("the hotness order is another one"));
    options.hotness_file = file.path();
    const client::Session session(options);
    CHECK(session.resumed());
    CHECK(order_in(session) == among_three_ranks(file));
}

TEST_CASE("a checked open request keeps its order when its options and its file are gone") {
    const std::string nowhere = "ipc:///nowhere";
    client::OpenOptions options = options_for(nowhere, nullptr);
    client::OpenRequest kept;
    std::vector<std::uint32_t> wanted;
    {
        const HotnessFile file;
        wanted = file.blocks();
        options.hotness_file = file.path();
        auto request = client::check_options(options);
        REQUIRE(request);
        CHECK(request.value().order == wanted);
        kept = std::move(request).value();
    }
    CHECK(kept.order == wanted);
    CHECK(kept.geometry.has_order == 1);
}

TEST_CASE("a hotness file that does not do is refused as the file says, before the daemon is asked") {
    const std::string nowhere = "ipc:///nowhere";
    const HotnessFile file;
    client::OpenOptions options = options_for(nowhere, file.path());
    SECTION("there is none") {
        const std::string missing = std::string(file.path()) + ".missing";
        options.hotness_file = missing.c_str();
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::not_found);
        CHECK(error.message == "cannot open hotness file " + missing + ": No such file or directory");
    }
    SECTION("of another vocabulary") {
        options.vocab = kVocab + 1;
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::bad_argument);
        CHECK_THAT(error.message, Contains(file.path()) && Contains("vocab is 1000, should be 1001 here") &&
                                      Contains("built for model 'tiny'"));
    }
    SECTION("damaged") {
        std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary).seekp(200).put('\x55');
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::corrupt_header);
        CHECK_THAT(error.message, Contains(file.path()) && Contains("checksum is") && Contains("damaged"));
    }
    SECTION("cut short") {
        std::filesystem::resize_file(file.path(), 1000);
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::wrong_size);
        CHECK_THAT(error.message, Contains("it has 1000 bytes, cut short"));
    }
    SECTION("an empty path") {
        options.hotness_file = "";
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::bad_argument);
        CHECK_THAT(error.message, Contains("hotness_file is empty") && Contains("NULL or the path"));
    }
    SECTION("beside an order") {
        const std::vector<std::uint32_t> blocks = file.blocks();
        options.order = blocks.data();
        const shm::Error error = refusal_of(options);
        CHECK(error.code == shm::Errc::bad_argument);
        CHECK_THAT(error.message, Contains("order and hotness_file are both given"));
    }
}
