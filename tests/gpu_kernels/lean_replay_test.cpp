// A lean step that a CUDA graph's replay finds by itself, on this CPU: what it lays is what one lays that is
// launched with all it needs.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "proto/lean_part.h"
#include "tests/gpu_kernels/emulated_lean.h"
#include "tests/gpu_kernels/replay_ring.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"

using namespace croupier;

TEST_CASE("a replay lays lean steps of any shape") {
    const auto side = testing::make_emulated_replay();
    std::mt19937_64 random(11);
    for (int i = 0; i < 200; ++i) testing::check_lay(*side, testing::random_case(random));
}

TEST_CASE("a replay lays lean steps of usual vocabularies, under masks and of many columns") {
    const auto side = testing::make_emulated_replay();
    testing::check_lay(*side, testing::usual_case(151936, 3, 64));
    testing::check_lay(*side, testing::usual_case(300000, 1, 64));
    // Of the second more spreads than CUDA blocks share.
    for (const std::uint32_t columns : {513U, 1200U})
        testing::check_lay(*side, testing::usual_case(300, columns, 32));
    for (const std::uint32_t vocab : {1U, 65U, 32000U})
        testing::check_lay(*side, testing::masked_case(vocab, 5, 64));
    std::mt19937_64 random(12);
    for (std::uint32_t i = 0; i < 20; ++i)
        testing::check_lay(*side, testing::drawn_case(2000 + i * 100, random));
}

TEST_CASE("a replay sends the blocks that a launch sends") {
    const auto replay = testing::make_emulated_replay();
    const auto launch = testing::make_emulated_lean();
    std::mt19937_64 random(13);
    for (int i = 0; i < 100; ++i) {
        const testing::LeanCase of = testing::random_case(random);
        const testing::Laid by_replay = replay->lay(of);
        const testing::Laid by_launch = launch->lay(of);
        testing::check_same_blocks(of, by_replay, by_launch);
        REQUIRE((by_replay.slice == by_launch.slice));
    }
}

TEST_CASE("a replay without a step that was begun changes nothing but its count") {
    testing::ReplayRing ring(3, 4);
    const std::vector<uint4> row(64);
    const gpu_writer::LeanRows rows{row.data(), 64, proto::Dtype::bf16, 0, 64, 1, 0};
    gpu_writer::LeanRecord record;
    record.slice.columns = 4;
    record.ticket = GENERATE(0U, 2U, 4U);  // none, the one after, one of the same place
    ring.begin(record, {});
    gpu_writer::launch_find_step(rows, {}, ring.get(), nullptr);
    CHECK(ring.empty_launches() == 1);
    CHECK(ring.found().slice.columns == 0);
    CHECK(*ring.next() == 0);
    gpu_writer::launch_found_whole_columns(rows, ring.get().step, nullptr);
    gpu_writer::launch_found_spreads(rows, {}, ring.get().step, nullptr, nullptr);
    gpu_writer::launch_keep_rows(rows, ring.get(), 128, nullptr);
    CHECK(ring.rows_of(0).opening == 0);
}

TEST_CASE("a replay keeps rows where the record says, aligned or not, and then tells of them") {
    constexpr std::uint32_t kColumns = 3;
    const std::uint32_t entries = GENERATE(1U, 7U, 8U, 64U, 129U);
    const std::uint32_t skipped = GENERATE(0U, 1U, 8U);
    const std::uint32_t stride = entries + GENERATE(0U, 3U, 8U);
    const std::uint32_t lead = GENERATE(0U, 5U, 8U);
    const std::uint32_t blocks = (lead + entries + 63) / 64;
    std::vector<uint4> memory(skipped + kColumns * stride);
    auto* const codes = reinterpret_cast<std::uint16_t*>(memory.data());
    for (std::uint32_t i = 0; i < skipped + kColumns * stride; ++i)
        codes[i] = static_cast<std::uint16_t>(i + 1);
    testing::ReplayRing ring(2, kColumns);
    const std::size_t pitch = std::size_t{blocks} * 128;
    std::vector<uint4> kept(kColumns * pitch / sizeof(uint4));
    const gpu_writer::LeanRows rows{codes + skipped, stride, proto::Dtype::bf16, lead, entries, blocks, 0};
    gpu_writer::LeanRecord record;
    record.ticket = 1;
    record.opening = 9;
    record.slot = 1;
    record.slice.columns = kColumns;
    record.kept = reinterpret_cast<std::byte*>(kept.data()) + std::size_t{lead} * 2;
    record.told = 5;
    ring.tell(1, 5);
    ring.begin(record, std::vector<gpu_writer::LeanWant>(kColumns));
    gpu_writer::launch_find_step(rows, {}, ring.get(), nullptr);
    // Nobody reads rows that the engine may write over.
    CHECK(ring.rows_of(1).opening == 0);
    gpu_writer::launch_keep_rows(rows, ring.get(), pitch, nullptr);
    CHECK(ring.rows_of(1).opening == 9);
    CHECK(ring.rows_of(1).logits == record.kept);
    CHECK(ring.rows_of(1).row_stride == pitch / 2);
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        INFO("column " << column);
        CHECK(std::memcmp(record.kept + column * pitch, codes + skipped + std::size_t{column} * stride,
                          std::size_t{entries} * 2) == 0);
    }
}
