#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "row_fixture.h"
#include "sampler/row_reader.h"

namespace croupier::sampler::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

RowFault fault_of(const std::vector<float>& logits, const RowShape& shape) {
    const RowFixture row(logits, shape);
    std::vector<float> read(logits.size());
    return read_row(row.view(), read);
}

}  // namespace

TEST_CASE("every finite 16-bit value is converted exactly") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16);
    std::vector<std::uint16_t> elements;
    std::vector<float> expected;
    for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
        const float value = value_of(static_cast<std::uint16_t>(bits), dtype);
        if (std::isnan(value) || value == kInfinity) continue;
        elements.push_back(static_cast<std::uint16_t>(bits));
        expected.push_back(value);
    }
    const auto count = static_cast<std::uint32_t>(elements.size());
    const Slice slice = {elements.data(), count, 0, nullptr};
    std::vector<float> read(count);
    REQUIRE(read_row({dtype, count, 64, 1, 0, {&slice, 1}}, read) == RowFault::none);
    bool all_equal = true;
    for (std::uint32_t i = 0; i < count; ++i) {
        all_equal =
            all_equal && std::bit_cast<std::uint32_t>(read[i]) == std::bit_cast<std::uint32_t>(expected[i]);
    }
    CHECK(all_equal);
}

TEST_CASE("a column is read from among its neighbours whatever the tile and the sharding") {
    const auto tile = GENERATE(1U, 3U, 64U, 1024U);
    const auto columns = GENERATE(1U, 5U);
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    std::vector<float> logits(300);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i) - 128.0F;
    const RowFixture row(logits, {dtype, tile, columns, columns - 1, {100, 0, 129, 71}, true});
    std::vector<float> read(320);
    REQUIRE(view_is_consistent(row.view()));
    REQUIRE(read_row(row.view(), read) == RowFault::none);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        REQUIRE(read[i] == logits[static_cast<std::size_t>(row.order()[i])]);
    }
    for (std::size_t i = logits.size(); i < read.size(); ++i) REQUIRE(read[i] == -kInfinity);
}

TEST_CASE("NaN and +inf among the real entries are found, and NaN is named first") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    const auto tile = GENERATE(1U, 3U, 64U);
    const auto columns = GENERATE(1U, 2U);
    const auto where = GENERATE(std::size_t{0}, std::size_t{63}, std::size_t{98});
    const RowShape shape = {dtype, tile, columns, 0, {}, false};
    std::vector<float> logits(99, 1.0F);
    logits[50] = -kInfinity;
    CHECK(fault_of(logits, shape) == RowFault::none);
    logits[where] = kInfinity;
    CHECK(fault_of(logits, shape) == RowFault::positive_infinity);
    logits[20] = kNaN;
    CHECK(fault_of(logits, shape) == RowFault::nan);
    logits[where] = -kNaN;
    logits[20] = 1.0F;
    CHECK(fault_of(logits, shape) == RowFault::nan);
}

TEST_CASE("views whose slices do not tile the vocabulary are inconsistent") {
    const std::vector<float> elements(16);
    const Slice good[] = {{elements.data(), 4, 0, nullptr}, {elements.data(), 4, 4, nullptr}};
    const RowView view = {proto::Dtype::fp32, 8, 1, 1, 0, good};
    CHECK(view_is_consistent(view));
    auto changed = view;
    changed.vocab = 9;
    CHECK_FALSE(view_is_consistent(changed));
    changed = view;
    changed.column = 1;
    CHECK_FALSE(view_is_consistent(changed));
    changed = view;
    changed.tile = 0;
    CHECK_FALSE(view_is_consistent(changed));
    const Slice gap[] = {{elements.data(), 4, 0, nullptr}, {elements.data(), 4, 5, nullptr}};
    changed = view;
    changed.slices = gap;
    CHECK_FALSE(view_is_consistent(changed));
    const Slice missing[] = {{elements.data(), 4, 0, nullptr}, {nullptr, 4, 4, nullptr}};
    changed.slices = missing;
    CHECK_FALSE(view_is_consistent(changed));
}

}  // namespace croupier::sampler::test
