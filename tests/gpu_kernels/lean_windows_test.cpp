// Lean steps with windows, and rows in any order, on this CPU: what the kernels lay of a column is what they
// lay of it where the rows stand in the columns' order.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "proto/lean_part.h"
#include "tests/gpu_kernels/emulated_gather.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"
#include "tests/gpu_writer/naive_lean.h"

using namespace croupier;
using testing::GatherCase;
using testing::LeanCase;

namespace {

// The blocks of a column's bits, in the slice as it was.
std::vector<testing::Asked> some_blocks(const LeanCase& of, std::mt19937_64& random) {
    std::vector<testing::Asked> asked;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        std::vector<std::uint64_t> bitmap(of.blocks() / 64 + 1);
        for (std::uint32_t block = 0; block < of.blocks(); ++block) {
            if (random() % 3 == 0) bitmap[block / 64] |= std::uint64_t{1} << block % 64;
        }
        asked.push_back({column, bitmap});
    }
    return asked;
}

bool is_poison(const testing::Bytes& bytes, std::size_t first, std::size_t count) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                       bytes.begin() + static_cast<std::ptrdiff_t>(first + count),
                       [](unsigned char byte) { return byte == testing::kPoison; });
}

// Of everything that a column has in its rank's part.
bool is_untouched(const LeanCase& of, const testing::Laid& laid, std::uint32_t column) {
    const proto::LeanLayout layout = proto::lean_layout_of(of.geometry, of.rank);
    return is_poison(laid.part, layout.heads + column * sizeof(proto::LeanHead), sizeof(proto::LeanHead)) &&
           is_poison(laid.part, layout.maxima + column * layout.maxima_stride, layout.maxima_stride) &&
           is_poison(laid.part, layout.blocks + column * layout.blocks_stride, layout.blocks_stride) &&
           is_poison(laid.part, layout.elements + column * layout.elements_stride, layout.elements_stride);
}

// As it reads where there is no row.
void clear_row(LeanCase& of, std::uint32_t column) {
    const std::size_t size = proto::element_bytes(of.geometry.dtype);
    const std::uint32_t code = of.geometry.dtype == proto::Dtype::bf16   ? 0xFF80
                               : of.geometry.dtype == proto::Dtype::fp16 ? 0xFC00
                                                                         : 0xFF800000;
    unsigned char* row = of.rows.bytes.data() + (of.skipped + column * of.rows.stride) * size;
    for (std::size_t i = 0; i < of.geometry.shards[of.rank].count; ++i)
        std::memcpy(row + i * size, &code, size);
}

}  // namespace

TEST_CASE("steps of any shape are laid from rows in any order, with windows and without") {
    std::mt19937_64 random(21);
    const GatherCase how{GENERATE(true, false)};
    const auto side = testing::make_emulated_gather(how, random);
    for (int i = 0; i < 150; ++i) testing::check_lay(*side, testing::random_case(random));
}

TEST_CASE("so are steps of usual vocabularies, under masks, of drawn columns and of many") {
    std::mt19937_64 random(22);
    const auto side = testing::make_emulated_gather({}, random);
    testing::check_lay(*side, testing::usual_case(151936, 3, 64));
    // Fewer than have parts, some, and more than have a CUDA block each.
    for (const std::uint32_t columns : {31U, 32U, 200U, 600U})
        testing::check_lay(*side, testing::usual_case(300, columns, 32));
    for (const std::uint32_t vocab : {1U, 65U, 32000U})
        testing::check_lay(*side, testing::masked_case(vocab, 5, 64));
    // At the true position, where the host has guessed another one.
    for (std::uint32_t i = 0; i < 20; ++i)
        testing::check_lay(*side, testing::drawn_case(2000 + i * 100, random));
}

TEST_CASE("of a window's row that there is not nothing is sent, and the others are what they are") {
    std::mt19937_64 random(23);
    const auto some = testing::make_emulated_gather({true, 3}, random);
    std::size_t without = 0;
    for (int i = 0; i < 100; ++i) {
        const LeanCase of = i == 0 ? testing::usual_case(300, 300, 32) : testing::random_case(random);
        const testing::Laid laid = some->lay(of);
        const auto all = testing::make_emulated_gather({}, random);
        const testing::Laid complete = all->lay(of);
        for (std::uint32_t column = 0; column < of.columns(); ++column) {
            const auto& missing = some->without();
            const bool is_missing = std::find(missing.begin(), missing.end(), column) != missing.end();
            INFO(testing::words_of(of) << ": column " << column);
            CHECK(is_untouched(of, laid, column) == is_missing);
            without += is_missing ? 1 : 0;
            if (is_missing) continue;
            CHECK(testing::laid_column(of, laid, column).sent ==
                  testing::laid_column(of, complete, column).sent);
            CHECK(testing::laid_column(of, laid, column).maxima ==
                  testing::laid_column(of, complete, column).maxima);
        }
    }
    CHECK(without > 100);
}

TEST_CASE("in a step without windows a column without a row is one of nothing but -inf") {
    std::mt19937_64 random(24);
    const auto side = testing::make_emulated_gather({false, 3}, random);
    for (int i = 0; i < 60; ++i) {
        LeanCase of = testing::random_case(random);
        std::mt19937_64 again = random;
        (void)side->lay(of);
        const std::vector<std::uint32_t> without = side->without();
        for (const std::uint32_t column : without) clear_row(of, column);
        // The same holes once more.
        random = again;
        testing::check_lay(*side, of);
        REQUIRE(side->without() == without);
    }
}

TEST_CASE("blocks that are asked for come of the column's own row, lent or copied") {
    std::mt19937_64 random(25);
    GatherCase how;
    how.windows = GENERATE(true, false);
    how.copies = GENERATE(true, false);
    how.one_in_without = GENERATE(0U, 3U);
    const auto side = testing::make_emulated_gather(how, random);
    for (int i = 0; i < 60; ++i) {
        LeanCase of = testing::random_case(random);
        const auto asked = some_blocks(of, random);
        const testing::Bytes slice = side->answer(of, asked);
        for (const std::uint32_t column : side->without()) clear_row(of, column);
        INFO(testing::words_of(of));
        CHECK((slice == testing::naive_slice_of(of, asked)));
    }
}
