#include "sim/row_source.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "proto/logit_codes.h"

namespace croupier::sim {
namespace {

SimOptions small_options() {
    SimOptions options;
    options.vocab = 10001;
    options.tp = 3;
    options.steps = 50;
    return options;
}

std::vector<std::uint16_t> whole_row(const RowSource& rows, const SimOptions& options, const Request& request,
                                     std::uint32_t position, std::int32_t previous) {
    std::vector<std::uint16_t> row(options.vocab);
    rows.write(request, position, previous, 0, options.vocab, row.data());
    return row;
}

}  // namespace

TEST_CASE("the ranks' parts of a row form the whole row") {
    const SimOptions options = small_options();
    const RequestPlan plan(options);
    const Vocabulary vocabulary = make_vocabulary(options, plan);
    const RowSource rows(options, vocabulary);
    for (std::uint32_t position = 0; position < 40; ++position) {
        const auto whole = whole_row(rows, options, plan[1], position, 17);
        std::vector<std::uint16_t> parts(options.vocab);
        for (std::uint32_t rank = 0; rank < options.tp; ++rank) {
            const proto::RankShard shard = vocabulary.geometry.shards[rank];
            rows.write(plan[1], position, 17, shard.first_id, shard.count, &parts[shard.first_id]);
        }
        REQUIRE(parts == whole);
    }
}

TEST_CASE("a row depends only on request, position and previous token") {
    const SimOptions options = small_options();
    const RequestPlan plan(options);
    const Vocabulary vocabulary = make_vocabulary(options, plan);
    const RowSource rows(options, vocabulary);
    const RowSource again(options, vocabulary);
    const auto row = whole_row(rows, options, plan[1], 5, 17);
    CHECK(row == whole_row(again, options, plan[1], 5, 17));
    CHECK(row != whole_row(rows, options, plan[1], 6, 17));
    CHECK(row != whole_row(rows, options, plan[1], 5, 18));
    CHECK(row != whole_row(rows, options, plan[2], 5, 17));
}

TEST_CASE("only a poisoned position has a NaN") {
    const SimOptions options = small_options();
    const RequestPlan plan(options);
    const Vocabulary vocabulary = make_vocabulary(options, plan);
    const RowSource rows(options, vocabulary);
    Request request = plan[0];
    request.poisoned_at = 2;
    const auto nans = [&](std::uint32_t position) {
        const auto row = whole_row(rows, options, request, position, 1);
        return std::count_if(row.begin(), row.end(),
                             [](std::uint16_t code) { return std::isnan(proto::bf16_value(code)); });
    };
    CHECK(nans(1) == 0);
    CHECK(nans(2) == 1);
    CHECK(nans(3) == 0);
}

TEST_CASE("rows of a file are ordered by id whatever the hotness order") {
    SimOptions options = small_options();
    options.hotness_order = true;
    options.logits =
        (std::filesystem::temp_directory_path() / ("rows-" + std::to_string(::getpid()))).string();
    std::vector<std::uint16_t> codes(options.vocab);
    for (std::uint32_t id = 0; id < options.vocab; ++id) codes[id] = static_cast<std::uint16_t>(id);
    std::ofstream(options.logits, std::ios::binary)
        .write(reinterpret_cast<const char*>(codes.data()), static_cast<std::streamsize>(codes.size() * 2));
    const RequestPlan plan(options);
    const Vocabulary vocabulary = make_vocabulary(options, plan);
    const RowSource rows(options, vocabulary);
    std::filesystem::remove(options.logits);
    const auto row = whole_row(rows, options, plan[0], 0, 0);
    CHECK(row == codes);
}

TEST_CASE("a file without a whole number of rows is refused with both sizes") {
    SimOptions options = small_options();
    options.logits =
        (std::filesystem::temp_directory_path() / ("rows-" + std::to_string(::getpid()))).string();
    std::ofstream(options.logits, std::ios::binary) << "seven b";
    const RequestPlan plan(options);
    const Vocabulary vocabulary = make_vocabulary(options, plan);
    CHECK_THROWS_WITH(RowSource(options, vocabulary), Catch::Contains("7 bytes") && Catch::Contains("20002"));
    std::filesystem::remove(options.logits);
}

TEST_CASE("fp16 codes are rounded to nearest even, at every scale") {
    CHECK(proto::fp16_code(0.0F) == 0x0000);
    CHECK(proto::fp16_code(-0.0F) == 0x8000);
    CHECK(proto::fp16_code(1.0F) == 0x3C00);
    CHECK(proto::fp16_code(-2.0F) == 0xC000);
    CHECK(proto::fp16_code(65504.0F) == 0x7BFF);
    CHECK(proto::fp16_code(65520.0F) == 0x7C00);
    CHECK(proto::fp16_code(0x1p-24F) == 0x0001);
    CHECK(proto::fp16_code(0x1p-25F) == 0x0000);
    CHECK(proto::fp16_code(0x1p-14F) == 0x0400);
    CHECK(proto::fp16_code(0x1.ff8p-15F) == 0x03FF);
    CHECK(proto::fp16_code(0x1.ffcp-15F) == 0x0400);
    CHECK(proto::fp16_code(1.0F + 0x1p-11F) == 0x3C00);
    CHECK(proto::fp16_code(1.0F + 0x3p-11F) == 0x3C02);
    CHECK(proto::fp16_code(-std::numeric_limits<float>::infinity()) == 0xFC00);
    CHECK((proto::fp16_code(std::nanf("")) & 0x7FFF) > 0x7C00);
}

TEST_CASE("bf16 codes are rounded to nearest even") {
    CHECK(proto::bf16_code(1.0F) == 0x3F80);
    CHECK(proto::bf16_code(1.0F + 0x1p-8F) == 0x3F80);
    CHECK(proto::bf16_code(1.0F + 0x3p-8F) == 0x3F82);
    CHECK(proto::bf16_code(-std::numeric_limits<float>::infinity()) == 0xFF80);
    CHECK(std::isnan(proto::bf16_value(proto::bf16_code(std::nanf("")))));
}

}  // namespace croupier::sim
