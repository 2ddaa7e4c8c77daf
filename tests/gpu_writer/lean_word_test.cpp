// A lean step's words come last: who sees one has all bytes before it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "proto/lean_order.h"
#include "proto/lean_part.h"
#include "tests/gpu_writer/gpu_lean.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::GpuLeanStep;
using testing::LeanCase;

namespace {

// Spins, so that the bytes are looked at as soon as the word can be seen.
template <typename There>
void spin_until(There there) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!there()) {
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no word in ten seconds");
    }
}

// Of steps whose memory is poisoned before, those whose bytes at the word are not `expected`.
template <typename Launch, typename There>
int count_early_words(testing::MappedBytes& memory, const testing::Bytes& expected, int steps, Launch launch,
                      There there) {
    int early = 0;
    for (int i = 0; i < steps; ++i) {
        memory.fill(testing::kPoison);
        const auto word = std::uint64_t{1000} + static_cast<std::uint64_t>(i);
        launch(word);
        spin_until([&] { return there(word); });
        // The last bytes first in every other step: they are the likeliest to be late.
        const std::size_t half = i % 2 == 0 ? 0 : memory.size() / 2;
        const bool late =
            std::memcmp(memory.data() + half, expected.data() + half, memory.size() - half) != 0;
        early += late || std::memcmp(memory.data(), expected.data(), half) != 0 ? 1 : 0;
    }
    return early;
}

testing::Bytes first_bytes(GpuLeanStep& step, testing::MappedBytes& memory) {
    step.synchronise();
    return {memory.data(), memory.data() + memory.size()};
}

void check_ready_words(const LeanCase& of, int steps) {
    GpuLeanStep step(of);
    step.launch(1);
    const testing::Bytes expected = first_bytes(step, step.part);
    REQUIRE(step.ready(1));
    INFO(of.columns() << " columns");
    CHECK(count_early_words(
              step.part, expected, steps, [&](std::uint64_t word) { step.launch(word); },
              [&](std::uint64_t word) { return step.ready(word); }) == 0);
}

// Whether what the column has in the lean part is as expected.
bool column_is_there(const LeanCase& of, std::uint32_t column, const unsigned char* part,
                     const unsigned char* expected) {
    const proto::LeanLayout layout = proto::lean_layout_of(of.geometry, of.rank);
    const auto same = [&](std::size_t first, std::size_t stride) {
        return std::memcmp(part + first + column * stride, expected + first + column * stride, stride) == 0;
    };
    // The last bytes first: they are the likeliest to be late.
    return same(layout.elements, layout.elements_stride) && same(layout.blocks, layout.blocks_stride) &&
           same(layout.maxima, layout.maxima_stride) && same(layout.heads, sizeof(proto::LeanHead));
}

// Looks at each part's columns as soon as its stamp can be seen, while others are still sent.
void check_stamps(const LeanCase& of, int steps) {
    GpuLeanStep step(of);
    step.launch(1);
    const testing::Bytes expected = first_bytes(step, step.part);
    const proto::LeanOrder order(of.columns());
    REQUIRE(order.parts() > 1);
    int late = 0;
    int before_the_last = 0;
    for (int i = 0; i < steps; ++i) {
        const auto word = std::uint64_t{1000} + static_cast<std::uint64_t>(i);
        step.part.fill(testing::kPoison);
        step.launch(word);
        std::vector<std::uint32_t> pending(order.parts() - 1);
        std::iota(pending.begin(), pending.end(), 0U);
        spin_until([&] {
            std::erase_if(pending, [&](std::uint32_t part) {
                if (!step.stamped(part, word)) return false;
                before_the_last += step.ready(word) ? 0 : 1;
                for (std::uint32_t at = order.begin_of(part); at < order.begin_of(part + 1); ++at)
                    late +=
                        column_is_there(of, order.column_at(at), step.part.data(), expected.data()) ? 0 : 1;
                return true;
            });
            return pending.empty();
        });
        spin_until([&] { return step.ready(word); });
    }
    INFO(of.columns() << " columns, " << before_the_last << " parts seen before their step's word");
    CHECK(late == 0);
    CHECK(before_the_last > 0);
}

void check_answered_words(const LeanCase& of, std::size_t blocks, int steps) {
    std::vector<testing::Asked> asked;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        asked.push_back({column, std::vector<std::uint64_t>(of.blocks() / 64 + 1)});
        for (std::size_t i = 0; i < blocks; ++i) {
            const std::size_t block = (column + i * 97) % of.blocks();
            asked.back().bitmap[block / 64] |= std::uint64_t{1} << block % 64;
        }
    }
    GpuLeanStep step(of);
    step.ask(asked, 1);
    for (std::size_t i = 0; i < asked.size(); ++i) spin_until([&] { return step.answered(i, 1); });
    const testing::Bytes expected = first_bytes(step, step.slice);
    INFO(of.columns() << " columns ask for " << blocks << " blocks");
    CHECK(count_early_words(
              step.slice, expected, steps, [&](std::uint64_t word) { step.ask(asked, word); },
              [&](std::uint64_t word) {
                  std::size_t there = 0;
                  while (there < asked.size() && step.answered(there, word)) ++there;
                  return there == asked.size();
              }) == 0);
}

}  // namespace

TEST_CASE("a lean step's ready word comes when all of its bytes are there", "[lean]") {
    if (!testing::can_run(testing::Way::store)) return;
    check_ready_words(testing::usual_case(151936, 1, 64), 2000);
    check_ready_words(testing::usual_case(151936, 32, 64), 500);
    check_ready_words(testing::usual_case(32000, 100, 256), 300);
}

TEST_CASE("a part's stamp comes when all of its columns are there, before the step's word", "[lean]") {
    if (!testing::can_run(testing::Way::store)) return;
    check_stamps(testing::usual_case(151936, 64, 64), 300);
    check_stamps(testing::usual_case(151936, 256, 64), 100);
    check_stamps(testing::usual_case(32000, 100, 256), 300);
}

TEST_CASE("an answer's word comes when all of its blocks are there", "[lean]") {
    if (!testing::can_run(testing::Way::store)) return;
    check_answered_words(testing::usual_case(32000, 1, 64), 8, 2000);
    check_answered_words(testing::usual_case(32000, 16, 64), 60, 500);
}

TEST_CASE("a lean step with whole columns is there at its word, the slice too", "[lean]") {
    if (!testing::can_run(testing::Way::store)) return;
    LeanCase of = testing::usual_case(32000, 8, 64);
    for (gpu_writer::LeanWant& want : of.wants) want.flags.add(gpu_writer::Want::whole);
    GpuLeanStep step(of);
    step.launch(1);
    const testing::Bytes expected = first_bytes(step, step.slice);
    CHECK(count_early_words(
              step.slice, expected, 500, [&](std::uint64_t word) { step.launch(word); },
              [&](std::uint64_t word) { return step.ready(word); }) == 0);
}
