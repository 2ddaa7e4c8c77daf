#include "sampler/blocked_row.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "instruction_sets.h"
#include "row_fixture.h"
#include "sampler/row_mask.h"
#include "sampler/row_scan.h"

namespace croupier::sampler::test {
namespace {

using proto::Dtype;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row of given codes by id. What is not of the column, and the padding, is NaN. Where the shape is
// permuted, each rank's blocks lie backwards.
class RawRow {
  public:
    RawRow(const std::vector<std::uint32_t>& codes, const RowShape& shape)
        : shape_(shape), vocab_(static_cast<std::uint32_t>(codes.size())) {
        std::uint32_t first = 0;
        for (const std::uint32_t entries : shape.shards) {
            lay_slice(codes, first, entries);
            first += entries;
        }
        for (std::size_t i = 0; i < slices_.size(); ++i) {
            slices_[i].elements = elements_[i].data();
            if (shape.permuted) {
                slices_[i].blocks = blocks_[i].data();
                slices_[i].places = places_[i].data();
            }
            if (!shape.summarised) continue;
            slices_[i].summaries = {maxima_[i].data(),
                                    static_cast<std::uint32_t>(maxima_[i].size() / shape.columns)};
        }
    }

    RowView view() const {
        return {shape_.dtype, vocab_, shape_.tile, shape_.columns, shape_.column, slices_};
    }

  private:
    void lay_slice(const std::vector<std::uint32_t>& codes, std::uint32_t first, std::uint32_t entries) {
        const std::uint32_t first_block = first / kBlock;
        const std::uint32_t blocks = entries == 0 ? 0 : (first + entries - 1) / kBlock - first_block + 1;
        auto& order = blocks_.emplace_back(blocks);
        auto& places = places_.emplace_back(blocks);
        for (std::uint32_t i = 0; i < blocks; ++i) {
            places[i] = shape_.permuted ? blocks - 1 - i : i;
            order[places[i]] = first_block + i;
        }
        const std::size_t bytes = proto::element_bytes(shape_.dtype);
        const std::size_t tiles = (std::size_t{blocks} * kBlock + shape_.tile - 1) / shape_.tile;
        const std::size_t tile_places = tiles * shape_.columns;
        auto& elements = elements_.emplace_back(tile_places * shape_.tile * bytes, std::byte{0xFF});
        auto& maxima = maxima_.emplace_back(tile_places, std::numeric_limits<float>::quiet_NaN());
        float* column = maxima.data() + shape_.column * tiles;
        std::fill_n(column, tiles, -kInfinity);
        for (std::uint32_t id = first; id < std::min(first + entries, vocab_); ++id) {
            const std::uint32_t i = places[id / kBlock - first_block] * kBlock + id % kBlock;
            const std::size_t place = std::size_t{i / shape_.tile} * shape_.columns + shape_.column;
            const std::uint32_t code = codes[id];
            std::memcpy(elements.data() + (place * shape_.tile + i % shape_.tile) * bytes, &code, bytes);
            const float value = value_of_code(shape_.dtype, code);
            float& maximum = column[i / shape_.tile];
            if (std::isnan(value) || value > maximum) maximum = value;
        }
        slices_.push_back({nullptr, entries, first});
    }

    RowShape shape_;
    std::uint32_t vocab_;
    std::vector<std::vector<std::byte>> elements_;
    std::vector<std::vector<float>> maxima_;
    std::vector<std::vector<std::uint32_t>> blocks_;
    std::vector<std::vector<std::uint32_t>> places_;
    std::vector<Slice> slices_;
};

// Several ranks that share blocks; one is empty, one reaches beyond the vocabulary and one lies there.
std::vector<std::uint32_t> uneven_shards(std::uint32_t vocab) {
    const std::uint32_t third = vocab / 3;
    return {third + 1, 0, third - 1, 3, vocab - 2 * third + 70, 130};
}

// What the formats' definitions say, not the code under test.
float defined_value(Dtype dtype, std::uint32_t code) {
    return dtype == Dtype::fp32 ? std::bit_cast<float>(code)
                                : value_of(static_cast<std::uint16_t>(code), dtype);
}

bool identical(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// All codes of 16 bits, or many of 32, in no order.
std::vector<std::uint32_t> all_codes(Dtype dtype) {
    std::mt19937 generator(20261126);
    std::vector<std::uint32_t> codes(0x10000);
    for (std::uint32_t i = 0; i < codes.size(); ++i)
        codes[i] = dtype == Dtype::fp32 ? static_cast<std::uint32_t>(generator()) : i;
    std::shuffle(codes.begin(), codes.end(), generator);
    return codes;
}

// The same, but for NaN and +inf.
std::vector<std::uint32_t> all_sound_codes(Dtype dtype) {
    std::vector<std::uint32_t> codes = all_codes(dtype);
    for (std::uint32_t& code : codes) {
        if (!(defined_value(dtype, code) < kInfinity)) code = 0;
    }
    return codes;
}

std::uint32_t lowest_code(Dtype dtype) {
    if (dtype == Dtype::fp16) return 0xFC00U;
    return dtype == Dtype::bf16 ? 0xFF80U : 0xFF800000U;
}

// Blocks of all kinds: of one sign, of -inf alone, of values that hardly differ.
std::vector<std::uint32_t> delicate_codes(Dtype dtype, std::uint32_t vocab) {
    std::mt19937 generator(7);
    const std::vector<std::uint32_t> some = all_sound_codes(dtype);
    std::vector<std::uint32_t> codes(vocab);
    for (std::uint32_t i = 0; i < vocab; ++i) {
        const std::uint32_t kind = i / 50 % 4;
        const std::uint32_t any = some[generator() % some.size()];
        const std::uint32_t sign = dtype == Dtype::fp32 ? 1U << 31U : 1U << 15U;
        codes[i] = kind == 0 ? any : kind == 1 ? any | sign : kind == 2 ? lowest_code(dtype) : sign | (i % 3);
    }
    return codes;
}

std::vector<RowShape> shapes_of(Dtype dtype, std::uint32_t vocab) {
    std::vector<RowShape> shapes;
    for (const std::uint32_t tile : {1U, 3U, 64U, 128U}) {
        for (const std::uint32_t columns : {1U, 3U}) {
            shapes.push_back({dtype, tile, columns, columns / 2, {vocab}, false, false});
            shapes.push_back({dtype, tile, columns, columns - 1, uneven_shards(vocab), false, false});
            shapes.push_back({dtype, tile, columns, columns - 1, uneven_shards(vocab), true, false});
        }
    }
    return shapes;
}

std::vector<float> maxima_by_loop(Dtype dtype, const std::vector<std::uint32_t>& codes) {
    std::vector<float> maxima((codes.size() + kBlock - 1) / kBlock, -kInfinity);
    for (std::size_t id = 0; id < codes.size(); ++id) {
        maxima[id / kBlock] = std::max(maxima[id / kBlock], defined_value(dtype, codes[id]));
    }
    return maxima;
}

void check_found(const BlockedRow& row, const std::vector<std::uint32_t>& codes, float floor,
                 Workspace& workspace) {
    std::vector<Found> expected;
    for (std::uint32_t id = 0; id < codes.size(); ++id) {
        const float value = defined_value(row.dtype, codes[id]);
        if (value > -kInfinity && value >= floor) expected.push_back({id, value});
    }
    const std::uint32_t count = find_at_least(row, floor, workspace);
    INFO("floor " << floor);
    REQUIRE(count == expected.size());
    const bool same = std::equal(
        expected.begin(), expected.end(), workspace.found.begin(),
        [](const Found& a, const Found& b) { return a.token == b.token && identical(a.value, b.value); });
    REQUIRE(same);
    REQUIRE(count_allowed(row, {}, floor, workspace) == expected.size());
    // What is counted under a mask are those of the list that it allows.
    for (const std::uint32_t period : {1U, 3U, 64U, 100000U}) {
        std::vector<std::uint32_t> mask((codes.size() + 31) / 32);
        for (std::size_t id = period / 2; id < codes.size(); id += period) mask[id / 32] |= 1U << id % 32;
        const auto allowed = std::count_if(expected.begin(), expected.end(), [period](const Found& each) {
            return each.token % period == period / 2;
        });
        REQUIRE(count_allowed(row, mask, floor, workspace) == allowed);
    }
}

// By bits with holes of all sizes.
void check_largest_without(std::span<const float> values) {
    std::mt19937_64 generator(11);
    std::vector<std::uint64_t> bits((values.size() + 63) / 64);
    for (const std::uint32_t kind : {0U, 1U, 2U, 3U}) {
        for (std::uint64_t& word : bits) {
            word = kind == 0   ? 0
                   : kind == 1 ? ~std::uint64_t{0}
                               : generator() | (kind == 2 ? 0 : generator());
        }
        float expected = -kInfinity;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if ((bits[i / 64] >> (i % 64) & 1U) == 0) expected = std::max(expected, values[i]);
        }
        REQUIRE(largest_without(values, bits) == expected);
    }
}

// Of tokens that a mask allows, of every second, third, ... or of none.
void check_masked_scan(const BlockedRow& row, const std::vector<std::uint32_t>& codes, Workspace& workspace) {
    const std::span<float> maxima = workspace.block_max.first(row.blocks);
    for (const std::uint32_t period : {1U, 2U, 3U, 61U, 64U, 1000U, 100000U}) {
        std::vector<std::uint32_t> mask((codes.size() + 31) / 32);
        std::vector<float> expected(row.blocks, -kInfinity);
        for (std::uint32_t id = period / 2; id < codes.size(); id += period) {
            mask[id / 32] |= 1U << id % 32;
            expected[id / kBlock] = std::max(expected[id / kBlock], defined_value(row.dtype, codes[id]));
        }
        INFO("one of " << period << " allowed");
        REQUIRE(scan_allowed_maxima(row, mask, maxima) == RowFault::none);
        REQUIRE(std::equal(maxima.begin(), maxima.end(), expected.begin(), expected.end()));
        REQUIRE(scan_block_maxima(row, maxima) == RowFault::none);
        mask_block_maxima(row, mask, maxima);
        REQUIRE(std::equal(maxima.begin(), maxima.end(), expected.begin(), expected.end()));
    }
    REQUIRE(scan_block_maxima(row, maxima) == RowFault::none);
}

void check_scan(const std::vector<std::uint32_t>& codes, const RowShape& shape, Workspace& workspace) {
    const RawRow raw(codes, shape);
    const BlockedRow row = lay_in_blocks(raw.view(), workspace);
    const std::vector<float> expected = maxima_by_loop(shape.dtype, codes);
    const std::span<float> maxima = workspace.block_max.first(row.blocks);
    REQUIRE(scan_block_maxima(row, maxima) == RowFault::none);
    REQUIRE(std::equal(maxima.begin(), maxima.end(), expected.begin(), expected.end()));
    check_masked_scan(row, codes, workspace);
    const float largest = *std::max_element(expected.begin(), expected.end());
    REQUIRE(largest_of(maxima) == largest);
    check_largest_without(maxima);
    for (const float floor :
         {-kInfinity, std::numeric_limits<float>::lowest(), -1e4F, -1.0F, 0.0F, 1e-6F, 3.25F, largest}) {
        const auto reached = std::count_if(expected.begin(), expected.end(),
                                           [floor](float maximum) { return maximum >= floor; });
        REQUIRE(count_at_least(maxima, floor) == reached);
        check_found(row, codes, floor, workspace);
    }
}

RowFault fault_by_scan(const RawRow& raw, Workspace& workspace) {
    const BlockedRow row = lay_in_blocks(raw.view(), workspace);
    const auto maxima = workspace.block_max.first(row.blocks);
    if (row.summarised) return judge_block_maxima(maxima);
    // What a mask hides is found as well.
    const std::vector<std::uint32_t> nothing_allowed((workspace.vocab + 31) / 32);
    const RowFault hidden = scan_allowed_maxima(row, nothing_allowed, maxima);
    const RowFault fault = scan_block_maxima(row, maxima);
    REQUIRE(hidden == fault);
    return fault;
}

RowFault defined_fault(float value) {
    if (std::isnan(value)) return RowFault::nan;
    return value == kInfinity ? RowFault::positive_infinity : RowFault::none;
}

struct Broken {
    Dtype dtype;
    std::vector<std::uint32_t> codes;
};
const std::vector<Broken>& broken_codes() {
    static const std::vector<Broken> all = {
        {Dtype::bf16, {0x7F80U, 0x7FC0U, 0xFFC0U, 0x7F81U, 0xFF81U, 0x7FFFU, 0xFFFFU}},
        {Dtype::fp16, {0x7C00U, 0x7E00U, 0xFE00U, 0x7C01U, 0xFC01U, 0x7FFFU, 0xFFFFU}},
        {Dtype::fp32,
         {0x7F800000U, 0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0xFF800001U, 0x7FFFFFFFU, 0xFFFFFFFFU}},
    };
    return all;
}

// Each of the dtype's broken codes at each id of the row.
void check_every_id(const Broken& broken, const RowShape& shape, Workspace& workspace) {
    std::vector<std::uint32_t> codes = delicate_codes(broken.dtype, workspace.vocab);
    for (std::uint32_t id = 0; id < workspace.vocab; ++id) {
        const std::uint32_t sound = codes[id];
        for (const std::uint32_t code : broken.codes) {
            codes[id] = code;
            INFO("id " << id << ", code " << std::hex << code);
            const RawRow raw(codes, shape);
            REQUIRE(fault_by_scan(raw, workspace) == defined_fault(defined_value(broken.dtype, code)));
        }
        codes[id] = sound;
    }
    REQUIRE(fault_by_scan(RawRow(codes, shape), workspace) == RowFault::none);
}

}  // namespace

TEST_CASE("every id of a row has its exact value, whatever the layout") {
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const std::vector<std::uint32_t> codes = all_codes(dtype);
    const auto vocab = static_cast<std::uint32_t>(codes.size());
    Workspace workspace(vocab);
    for (const RowShape& shape : shapes_of(dtype, vocab)) {
        const RawRow raw(codes, shape);
        const BlockedRow row = lay_in_blocks(raw.view(), workspace);
        std::uint32_t wrong = 0;
        for (std::uint32_t id = 0; id < vocab; ++id) {
            wrong += identical(row.value_at(id), defined_value(dtype, codes[id])) ? 0U : 1U;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("block maxima and what reaches a floor agree with a plain loop on every instruction set") {
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    for (const std::int64_t target : instruction_sets()) {
        const InstructionSet used(target);
        INFO(name_of_instruction_set(target));
        for (const std::uint32_t vocab : {1U, 63U, 64U, 65U, 1000U, 9000U}) {
            Workspace workspace(vocab);
            const std::vector<std::uint32_t> codes = delicate_codes(dtype, vocab);
            for (const RowShape& shape : shapes_of(dtype, vocab)) {
                if (vocab >= 3 || shape.shards.size() == 1) check_scan(codes, shape, workspace);
            }
        }
    }
}

TEST_CASE("every code is found at its exact value on every instruction set") {
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const std::vector<std::uint32_t> codes = all_sound_codes(dtype);
    const auto vocab = static_cast<std::uint32_t>(codes.size());
    Workspace workspace(vocab);
    for (const std::int64_t target : instruction_sets()) {
        const InstructionSet used(target);
        INFO(name_of_instruction_set(target));
        check_scan(codes, {dtype, 64, 1, 0, {vocab}, false, false}, workspace);
    }
}

TEST_CASE("a NaN of either sign and a +inf are found at every id of every block") {
    constexpr std::uint32_t kVocab = 330;
    Workspace workspace(kVocab);
    for (const std::int64_t target : instruction_sets()) {
        const InstructionSet used(target);
        INFO(name_of_instruction_set(target));
        for (const Broken& broken : broken_codes()) {
            RowShape shape = {broken.dtype, 64, 2, 1, uneven_shards(kVocab), false, false};
            check_every_id(broken, shape, workspace);
            shape.permuted = true;
            check_every_id(broken, shape, workspace);
            shape.tile = 3;
            check_every_id(broken, shape, workspace);
        }
    }
}

TEST_CASE("a NaN of either sign and a +inf are found through the writer's summaries") {
    constexpr std::uint32_t kVocab = 330;
    Workspace workspace(kVocab);
    const bool permuted = GENERATE(false, true);
    for (const Broken& broken : broken_codes()) {
        check_every_id(broken, {broken.dtype, 64, 2, 1, uneven_shards(kVocab), permuted, true}, workspace);
    }
}

TEST_CASE("a block that ranks share has the largest of their parts' maxima, and what lies beyond has none") {
    constexpr std::uint32_t kVocab = 150;
    const std::vector<std::uint32_t> shards = {5, 50, 40, 45, 30, 100};
    std::vector<std::uint32_t> codes(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id)
        codes[id] = std::bit_cast<std::uint32_t>(static_cast<float>(id * 37 % 101));
    Workspace workspace(kVocab);
    for (const bool permuted : {false, true}) {
        const RawRow raw(codes, {Dtype::fp32, 64, 3, 1, shards, permuted, true});
        const BlockedRow row = lay_in_blocks(raw.view(), workspace);
        REQUIRE(row.summarised);
        REQUIRE(row.blocks == 3);
        const std::vector<float> expected = maxima_by_loop(Dtype::fp32, codes);
        CHECK(std::equal(expected.begin(), expected.end(), workspace.block_max.begin()));
        CHECK(row.value_in(row.block(2), kVocab % kBlock) == -kInfinity);
        CHECK(row.value_in(row.block(2), kBlock - 1) == -kInfinity);
    }
}

TEST_CASE("a NaN is reported before a +inf, wherever they stand") {
    const auto& broken = GENERATE(from_range(broken_codes()));
    const std::uint32_t infinity = broken.codes.front();
    Workspace workspace(200);
    for (const bool summarised : {false, true}) {
        for (const std::uint32_t nan : std::vector(broken.codes.begin() + 1, broken.codes.end())) {
            std::vector<std::uint32_t> codes(200, lowest_code(broken.dtype));
            codes[70] = infinity;
            codes[71] = nan;
            const RowShape shape = {broken.dtype, 64, 1, 0, {100, 100}, false, summarised};
            CHECK(fault_by_scan(RawRow(codes, shape), workspace) == RowFault::nan);
            std::swap(codes[70], codes[199]);
            CHECK(fault_by_scan(RawRow(codes, shape), workspace) == RowFault::nan);
            std::swap(codes[71], codes[0]);
            CHECK(fault_by_scan(RawRow(codes, shape), workspace) == RowFault::nan);
        }
    }
}

}  // namespace croupier::sampler::test
