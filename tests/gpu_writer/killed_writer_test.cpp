// A writer that is killed while its copies are under way: what its process's end proves about them.
#include <poll.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "shm/file.h"
#include "testing/child_process.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using namespace croupier::testing;
using testing::Bytes;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kSteps = 8;
constexpr std::uint32_t kColumns = 256;
constexpr std::uint32_t kVocab = 151936;
// So few that the stores take long enough to be killed in.
constexpr std::uint32_t kStoreBlocks = 1;
constexpr unsigned char kWritten = 0x5A;
constexpr const char* kSegment = "CROUPIER_TEST_SEGMENT";
constexpr const char* kWay = "CROUPIER_TEST_WAY";

proto::Geometry large_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.vocab = kVocab;
    geometry.max_batch = kColumns;
    geometry.max_sequences = 2 * kColumns;
    geometry.slots = kSteps;
    proto::fill_even_shards(geometry);
    return geometry;
}

constexpr std::size_t kPage = 4096;
// So few pages are read within some microseconds: what they hold is nearly that of an instant.
constexpr std::size_t kSparse = 601 * kPage;

// The last word of each page, or of some pages, of all slices, which are all zero at first.
std::vector<std::uint64_t> words_of_pages(const shm::Segment& segment, std::size_t apart = kPage) {
    std::vector<std::uint64_t> words;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
        const auto* slice = static_cast<const unsigned char*>(segment.logits(segment.slot_of(step), 0));
        for (std::size_t at = kPage - 8; at < std::size_t{kColumns} * kVocab * 2; at += apart)
            words.push_back(std::uint64_t{*reinterpret_cast<const volatile std::uint64_t*>(slice + at)});
    }
    return words;
}

std::size_t differing(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1U : 0U;
    return count;
}

bool has_ended(const shm::FileDescriptor& process) {
    pollfd ended{process.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
}

template <typename Holds>
void spin_until(Holds holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) REQUIRE(std::chrono::steady_clock::now() < deadline);
}

// How many pages were written at all, and when.
struct Landing {
    std::size_t landed = 0;
    std::size_t between_lock_and_end = 0;  // of the sparse ones
    std::size_t after_the_end = 0;         // of the sparse ones, read at once
    std::size_t later = 0;                 // of all, read within some milliseconds
    std::size_t pages = 0;
    std::size_t sparse = 0;
};

Landing watch_killed_writer(Way way) {
    SessionFiles files(large_geometry());
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    for (std::uint32_t step = 0; step < kSteps; ++step) testing::publish_step(client, kColumns);
    auto child = ChildProcess::start([&] {
        ::setenv(kSegment, files.segment.path().c_str(), 1);
        ::setenv(kWay, way == Way::store ? "store" : "copy", 1);
        ::execl("/proc/self/exe", "writer", "[killed-writer]", nullptr);
        return 127;
    });
    const shm::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
    REQUIRE(process.valid());
    const auto held = [&] { return files.segment.is_held(shm::writer_role(0)); };
    spin_until([&] { return held() || has_ended(process); });
    spin_until([&] { return !held(); });
    const auto at_fall = words_of_pages(files.segment, kSparse);
    spin_until([&] { return has_ended(process); });
    const auto at_end = words_of_pages(files.segment, kSparse);
    const auto all_after_end = words_of_pages(files.segment);
    REQUIRE(child.wait() == -1);
    const auto a_second_later = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    spin_until([&] { return std::chrono::steady_clock::now() > a_second_later; });
    const std::vector<std::uint64_t> nothing(all_after_end.size());
    return {differing(nothing, words_of_pages(files.segment)),
            differing(at_fall, at_end),
            differing(at_end, words_of_pages(files.segment, kSparse)),
            differing(all_after_end, words_of_pages(files.segment)),
            all_after_end.size(),
            at_end.size()};
}

}  // namespace

// Hidden: executed by the other test.
TEST_CASE("a writer that kills itself with its copies under way", "[.][killed-writer]") {
    const char* path = std::getenv(kSegment);
    const char* way = std::getenv(kWay);
    REQUIRE(path != nullptr);
    REQUIRE(way != nullptr);
    const Bytes rows(std::size_t{kColumns} * kVocab * 2, kWritten);
    WriterUnderTest writer(std::string(way) == "store" ? Way::store : Way::copy, path, 0, rows.size(),
                           kStoreBlocks);
    const void* logits = writer.memory().put(rows);
    writer.memory().synchronise();
    for (std::uint32_t step = 0; step < kSteps; ++step) {
        REQUIRE(writer.begin(step) == 0);
        REQUIRE(croupier_writer_enqueue(writer.get(), writer.memory().stream(), logits, kVocab, nullptr) ==
                0);
    }
    ::raise(SIGKILL);
}

TEST_CASE("nothing lands after a killed writer's process has ended, though it was in the middle of copies") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    std::size_t cut_off = 0;
    for (int round = 0; round < 5; ++round) {
        const Landing landing = watch_killed_writer(way);
        WARN(testing::name_of(way) << ": of " << landing.pages << " pages " << landing.landed
                                   << " landed; of " << landing.sparse << " " << landing.between_lock_and_end
                                   << " between the lock's fall and the process's end, "
                                   << landing.after_the_end << " after it; of all " << landing.later
                                   << " later");
        CHECK(landing.after_the_end == 0);
        CHECK(landing.later == 0);
        cut_off += landing.landed < landing.pages ? 1U : 0U;
    }
    // Else the kill came when all had landed, and nothing was shown.
    CHECK(cut_off > 0);
}
