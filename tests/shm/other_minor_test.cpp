// Builds of another minor version: a segment whose elements have fields that this build does not know.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>

#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

constexpr proto::ElementBytes kWide = {sizeof(proto::SamplingParams) + 24, sizeof(proto::ScheduleColumn) + 8,
                                       sizeof(proto::Decision) + 8, sizeof(proto::RankedLogprob) + 4};
constexpr std::uint32_t kColumns = 5;

class NewerSession {
  public:
    NewerSession() : daemon_(create(directory_)) {
        daemon_.header().minor = proto::kSegmentMinor + 1;
        daemon_.header().checksum = proto::header_checksum(daemon_.header());
    }
    Segment& daemon() { return daemon_; }
    Segment open() const {
        auto attached = Segment::attach(daemon_.path(), Access::read_write);
        if (!attached) FAIL(attached.error().message);
        return std::move(attached).value();
    }

  private:
    static Segment create(const TestDirectory& directory) {
        proto::Geometry geometry = small_geometry();
        geometry.max_logprobs = 3;
        SegmentSpec spec = spec_in(directory, geometry);
        spec.elements = kWide;
        auto created = Segment::create(spec);
        if (!created) FAIL(created.error().message);
        return std::move(created).value();
    }

    TestDirectory directory_;
    Segment daemon_;
};

template <typename T>
bool rest_is_zero(const proto::Stored<T>& stored) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(stored.place());
    return std::all_of(bytes + sizeof(T), bytes + stored.bytes(),
                       [](unsigned char byte) { return byte == 0; });
}

template <typename T>
void scribble(const proto::Stored<T>& stored) {
    std::memset(static_cast<void*>(stored.place()), 0xEE, stored.bytes());
}

}  // namespace

TEST_CASE("steps pass through a segment whose elements are wider than this build's") {
    NewerSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    REQUIRE(client);
    for (std::uint32_t slot = 0; slot < segment.geometry().slots; ++slot) {
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            scribble(segment.schedule_columns(slot)[column]);
            scribble(segment.decisions(slot)[column]);
        }
    }
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t step = client.value().next_to_publish();
        REQUIRE(client.value().publish(columns_of(step, kColumns)));
        const std::uint32_t slot = segment.slot_of(step);
        const auto asked = columns_of(step, kColumns);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            CHECK(same(session.daemon().schedule_columns(slot)[column], asked[column]));
            CHECK(rest_is_zero(session.daemon().schedule_columns(slot)[column]));
        }
        CHECK(decide_rest(session.daemon(), step, kColumns, 7) == kColumns);
        for (std::uint32_t column = 0; column < kColumns; ++column)
            CHECK(rest_is_zero(segment.decisions(slot)[column]));
        REQUIRE(take_all(client.value(), segment));
    }
}

TEST_CASE("what this build does not know of a newer segment's parameters and log-probs is off") {
    NewerSession session;
    Segment segment = session.open();
    scribble(segment.params(0));
    SequenceTable table(segment);
    NewSequence sequence;
    sequence.uid = 9;
    sequence.params.seed = 0x1234567890ULL;
    sequence.params.temperature = 0.5;
    const std::vector<std::int32_t> prompt = {1, 2};
    sequence.prompt = prompt;
    REQUIRE(table.add(sequence).value() == 0);
    const proto::SamplingParams stored = session.daemon().params(0);
    CHECK(stored.seed == sequence.params.seed);
    CHECK(stored.temperature == 0.5);
    CHECK(stored.dry_base == sequence.params.dry_base);
    CHECK(rest_is_zero(session.daemon().params(0)));

    const auto ranked = segment.logprobs(1, 2);
    for (std::size_t i = 0; i < ranked.size(); ++i)
        ranked[i].store({static_cast<std::int32_t>(i), -1.0F, static_cast<std::uint32_t>(i) + 1});
    const auto asked = asked_logprobs(session.daemon().logprobs(1, 2));
    REQUIRE(asked.size() == 4);
    CHECK(asked[3].load().token == 3);
    CHECK(asked[3].load().rank == 4);
}

TEST_CASE("what an element lacks reads as zero, and what it has beyond is known only where it is off") {
    std::array<std::byte, 16> room{};
    struct Grown {
        std::uint64_t known;
        std::uint64_t later;
    };
    const proto::Stored<Grown> smaller(room.data(), 8);
    smaller.store({5, 1});
    room[8] = std::byte{7};
    CHECK(smaller.load().known == 5);
    CHECK(smaller.load().later == 0);
    CHECK(room[8] == std::byte{7});
    CHECK(smaller.is_known());

    const proto::Stored<std::uint64_t> larger(room.data(), 16);
    CHECK_FALSE(larger.is_known());
    larger.store(6);
    CHECK(larger.is_known());
}

TEST_CASE("a field that a segment's maker does not know is refused by its name where it is set") {
    proto::SamplingParams params;
    params.seed = 7;
    const std::size_t before = offsetof(proto::SamplingParams, support);
    CHECK(check_known(params, before));
    params.support = 3;
    CHECK(check_known(params, sizeof(params)));
    const auto refused = check_known(params, before);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::wrong_version);
    CHECK(refused.error().message.find("support is set, which the daemon or the relay") == 0);
}

TEST_CASE("a newer segment with a part that stands out of the file is refused by the part's name") {
    NewerSession session;
    proto::SegmentHeader& header = session.daemon().header();
    const auto refusal = [&] {
        header.checksum = proto::header_checksum(header);
        auto attached = Segment::attach(session.daemon().path(), Access::read_only);
        return attached ? std::string("accepted") : attached.error().message;
    };
    const proto::SegmentLayout sound = header.layout;
    header.layout.lists_offset = sound.sequence_stride;
    CHECK(refusal().find("the lists of a sequence stand out of its") != std::string::npos);
    header.layout = sound;
    header.layout.decisions = sound.schedule;
    CHECK(refusal().find("of the segment overlap what stands before them") != std::string::npos);
    header.layout = sound;
    header.layout.elements.params = 200;
    CHECK(refusal().find("one element of the parameters has 200 bytes, allowed is 216 to 4096") !=
          std::string::npos);
    header.layout = sound;
    header.layout.token_log_stride = std::uint64_t{4096} * 2;
    CHECK(refusal().find("the token logs") != std::string::npos);
    header.layout = sound;
    CHECK(refusal() == "accepted");
}

TEST_CASE("a segment of this minor version has no wider elements, not even of a kind that no slot has") {
    const TestDirectory directory;
    auto created = Segment::create(spec_in(directory, small_geometry()));
    REQUIRE(created);
    proto::SegmentHeader& header = created.value().header();
    REQUIRE(header.geometry.max_logprobs == 0);
    header.layout.elements.ranked = kWide.ranked;
    header.checksum = proto::header_checksum(header);
    const auto attached = Segment::attach(created.value().path(), Access::read_only);
    REQUIRE_FALSE(attached);
    CHECK(attached.error().message.find("its layout is not the one that its geometry gives") !=
          std::string::npos);
}
