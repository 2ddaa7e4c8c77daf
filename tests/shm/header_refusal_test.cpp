// "Version, magic, length, capacity wrong": whatever does not match is refused by type, naming both sides.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "shm/plane.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;
using proto::SegmentHeader;

namespace {

Error refusal_of(const TestSession& session) {
    auto attached = Segment::attach(session.path(), Access::read_write);
    if (attached) return {Errc{}, "accepted"};
    return attached.error();
}

bool says(const Error& error, const std::string& text) {
    return error.message.find(text) != std::string::npos;
}

// For corruptions that a checksum would hide: what an old or a new binary would have written.
void sign(SegmentHeader& header) {
    header.checksum = proto::header_checksum(header);
}

void overwrite(const std::string& path, std::size_t offset, std::uint32_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

TEST_CASE("a wrong magic, version or length is refused by type, naming the segment's and this build's") {
    TestSession session;
    SegmentHeader& header = session.daemon().header();
    SECTION("magic") {
        header.magic = 12345;
        const Error error = refusal_of(session);
        CHECK(error.code == Errc::bad_magic);
        CHECK((says(error, "12345") && says(error, std::to_string(proto::kSegmentMagic)) &&
               says(error, session.path())));
    }
    SECTION("an older and a newer version") {
        for (const std::uint32_t version : {proto::kSegmentVersion - 1, proto::kSegmentVersion + 1}) {
            header.version = version;
            sign(header);
            const Error error = refusal_of(session);
            CHECK(error.code == Errc::wrong_version);
            CHECK(says(error, "version is " + std::to_string(version) + " in the segment and " +
                                  std::to_string(proto::kSegmentVersion) + " in this build"));
        }
    }
    SECTION("header length") {
        header.header_bytes = 4096;
        sign(header);
        const Error error = refusal_of(session);
        CHECK(error.code == Errc::wrong_size);
        CHECK(says(error, "header_bytes is 4096 in the segment and 8192 in this build"));
    }
    SECTION("total length") {
        header.total_bytes += 4096;
        sign(header);
        const Error error = refusal_of(session);
        CHECK(error.code == Errc::wrong_size);
        CHECK(says(error, std::to_string(header.total_bytes)));
        CHECK(says(error, std::to_string(session.daemon().layout().total_bytes)));
    }
}

TEST_CASE("a file that is cut short or grown is refused, naming both lengths") {
    TestSession session;
    const auto total = static_cast<off_t>(session.daemon().layout().total_bytes);
    // Downwards, so that what is left of the header stays sound.
    for (const off_t bytes : {total + 1, total - 1, off_t{8192}, off_t{8191}, off_t{100}, off_t{0}}) {
        REQUIRE(::truncate(session.path().c_str(), bytes) == 0);
        const Error error = refusal_of(session);
        INFO(error.message);
        CHECK(error.code == Errc::wrong_size);
        CHECK(says(error, " has " + std::to_string(bytes)));
        CHECK(says(error, std::to_string(bytes < 8192 ? off_t{8192} : total)));
    }
}

TEST_CASE("a capacity outside its range is refused by its name, even with a sound checksum") {
    TestSession session;
    SegmentHeader& header = session.daemon().header();
    header.geometry.max_batch = 0xFFFFFFFFU;
    sign(header);
    const Error error = refusal_of(session);
    CHECK(error.code == Errc::bad_geometry);
    CHECK(says(error, "max_batch is 4294967295, allowed is 1 to 16384"));
}

TEST_CASE("a capacity for lists past its range is refused by its name, even with a sound checksum") {
    TestSession session;
    SegmentHeader& header = session.daemon().header();
    header.geometry.max_list_tokens = proto::kMaxListTokens + 1;
    sign(header);
    const Error error = refusal_of(session);
    CHECK(error.code == Errc::bad_geometry);
    CHECK(says(error, "max_list_tokens is 65537, allowed is 0 to 65536"));
}

TEST_CASE("a capacity that does not fit the file's layout is refused, even with a sound checksum") {
    TestSession session;
    SegmentHeader& header = session.daemon().header();
    SECTION("the geometry grew") {
        header.geometry.max_batch *= 2;
    }
    SECTION("more room for lists") {
        header.geometry.max_list_tokens += 64;
    }
    SECTION("a region moved") {
        header.layout.logits += 64;
    }
    SECTION("the lists moved") {
        header.layout.lists_offset += 64;
    }
    SECTION("a stride grew") {
        header.layout.decision_stride += 64;
    }
    sign(header);
    CHECK(refusal_of(session).code == Errc::corrupt_header);
}

TEST_CASE("a name in the header that does not end is refused") {
    TestSession session;
    SegmentHeader& header = session.daemon().header();
    SECTION("session") {
        std::memset(header.name, 'x', sizeof(header.name));
    }
    SECTION("instance") {
        std::memset(header.instance, 'x', sizeof(header.instance));
    }
    sign(header);
    const Error error = refusal_of(session);
    CHECK(error.code == Errc::corrupt_header);
    CHECK(says(error, "does not end"));
}

TEST_CASE(
    "every flip of a byte in the header's fixed part is refused, and the rest up to the live words is "
    "padding") {
    TestSession session;
    auto* bytes = reinterpret_cast<unsigned char*>(&session.daemon().header());
    constexpr std::size_t kFixedEnd = offsetof(SegmentHeader, checksum) + sizeof(SegmentHeader::checksum);
    constexpr std::size_t kLiveStart = offsetof(SegmentHeader, state);
    STATIC_REQUIRE(kLiveStart - kFixedEnd < 64);
    for (std::size_t i = 0; i < kLiveStart; ++i) {
        for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
            bytes[i] = static_cast<unsigned char>(bytes[i] ^ flip);
            const bool refused = !Segment::attach(session.path(), Access::read_only);
            INFO("byte " << i << " flipped by " << flip);
            REQUIRE(refused == (i < kFixedEnd));
            bytes[i] = static_cast<unsigned char>(bytes[i] ^ flip);
        }
    }
    CHECK(Segment::attach(session.path(), Access::read_only));
}

TEST_CASE("writing over the header later moves no index of an attached process") {
    TestSession session;
    const Segment segment = session.open();
    auto* const before = &segment.schedule(2);
    session.daemon().header().geometry.slots = 1;
    session.daemon().header().layout.schedule = 0;
    CHECK(&segment.schedule(2) == before);
    CHECK(segment.slot_of(2) == 2);
}

TEST_CASE("a segment that does not exist, a directory and a symbolic link are refused by type") {
    TestSession session;
    CHECK(Segment::attach(TestDirectory().path() + "/croupier-no-such.seg", Access::read_only).error().code ==
          Errc::not_found);
    CHECK(Segment::attach("/dev/shm", Access::read_only).error().code == Errc::bad_magic);
    const std::string link = session.path() + ".link";
    REQUIRE(::symlink(session.path().c_str(), link.c_str()) == 0);
    CHECK_FALSE(Segment::attach(link, Access::read_only));
    CHECK(::unlink(link.c_str()) == 0);
}

TEST_CASE("a plane of another kind, version or size is refused, naming both") {
    TestDirectory directory;
    REQUIRE(Plane::create(directory.path(), "test", 2, 1));
    const std::string path = plane_path(directory.path(), "test");
    const auto attach = [&] { return Plane::attach(directory.path(), "test", Access::read_only); };
    REQUIRE(attach());
    overwrite(path, offsetof(proto::PlaneHeader, bytes), 5);
    CHECK(attach().error().code == Errc::corrupt_header);
    overwrite(path, offsetof(proto::PlaneHeader, version), 99);
    CHECK(attach().error().code == Errc::wrong_version);
    CHECK(
        says(attach().error(), "has version 99, this build speaks " + std::to_string(proto::kPlaneVersion)));
    overwrite(path, offsetof(proto::PlaneHeader, magic), 99);
    CHECK(attach().error().code == Errc::bad_magic);
    REQUIRE(::truncate(path.c_str(), 100) == 0);
    CHECK(attach().error().code == Errc::wrong_size);
}
