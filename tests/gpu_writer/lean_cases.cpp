#include "tests/gpu_writer/lean_cases.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <numeric>

#include "proto/lean_part.h"

namespace croupier::testing {
namespace {

using proto::Dtype;
using Random = std::mt19937_64;

enum class Row {
    near,
    any,
    flat,
    empty,
    sparse,
    nan,
    infinite,
    two_values,
    lures,
    outliers,
    lowest,
    stairs,
    count_
};

std::uint32_t below(Random& random, std::uint64_t end) {
    return static_cast<std::uint32_t>(random() % end);
}

std::uint32_t minus_infinity_of(Dtype dtype) {
    if (dtype == Dtype::bf16) return 0xFF80;
    return dtype == Dtype::fp16 ? 0xFC00 : 0xFF800000;
}

std::uint32_t one_of(Dtype dtype) {
    if (dtype == Dtype::bf16) return 0x3F80;
    return dtype == Dtype::fp16 ? 0x3C00 : 0x3F800000;
}

// From 2 down, a bf16 lower with each block, and at the end they are all 0: no code is left out.
std::uint32_t stair_code(Dtype dtype, std::size_t block) {
    const std::uint32_t step = dtype == Dtype::fp32 ? 1U << 16U : 1U;
    const std::size_t top = one_of(dtype) + (dtype == Dtype::fp16 ? 1U << 10U : 128 * step);
    return static_cast<std::uint32_t>(top - std::min(top, block * step));
}

// Below 16, of either sign; in fp16 not below 1, in the others seldom.
std::uint32_t near_code(Dtype dtype, Random& random) {
    if (dtype == Dtype::fp16) return 0x3C00 + below(random, 0x1000) + (random() % 2 != 0 ? 0x8000U : 0U);
    const float value = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-27F;
    return std::bit_cast<std::uint32_t>(value) >> (dtype == Dtype::bf16 ? 16U : 0U);
}

std::uint32_t code_in(Row row, Dtype dtype, Random& random) {
    const std::uint32_t all = dtype == Dtype::fp32 ? 0xFFFFFFFF : 0xFFFF;
    switch (row) {
        case Row::any:
            // Without the exponent's uppermost bit it is neither NaN nor infinite.
            return static_cast<std::uint32_t>(random()) & all & ~((all >> 2U) + 1);
        case Row::empty:
            return minus_infinity_of(dtype);
        case Row::sparse:
            return random() % 200 == 0 ? near_code(dtype, random) : minus_infinity_of(dtype);
        case Row::nan:
            return random() % 700 == 0 ? all - below(random, 2) * (all / 2 + 1) : near_code(dtype, random);
        case Row::infinite:
            return random() % 700 == 0 ? minus_infinity_of(dtype) & all / 2 : near_code(dtype, random);
        case Row::lures:
            // Most blocks have one, and seldom is it their first to arrive.
            return random() % 64 == 0 ? one_of(dtype) : minus_infinity_of(dtype);
        case Row::outliers:
            // All others are far below it, close together.
            return random() % 3000 == 0 ? (minus_infinity_of(dtype) & all / 2) - 1 : near_code(dtype, random);
        case Row::lowest:
            // At temperatures below 1 all score the same.
            return minus_infinity_of(dtype) - 2;
        case Row::two_values:
            return random() % 300 == 0 ? 0 : all / 2 + 1;  // zeros of either sign
        default:
            return near_code(dtype, random);
    }
}

void fill_row(Row row, Dtype dtype, unsigned char* to, std::size_t count, Random& random) {
    const std::size_t size = proto::element_bytes(dtype);
    const std::uint32_t one = near_code(dtype, random);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t code = row == Row::flat ? one : code_in(row, dtype, random);
        if (row == Row::stairs) code = stair_code(dtype, i / proto::kBlockIds);
        std::memcpy(to + i * size, &code, size);
    }
}

void cut_shards(proto::Geometry& geometry, Random& random) {
    // Now and then the shards have ids beyond the vocabulary.
    const std::uint32_t ids = geometry.vocab + (random() % 2 == 0 ? 0 : below(random, 300));
    std::vector<std::uint32_t> cuts{0, ids};
    for (std::uint32_t i = 1; i < geometry.tp; ++i) cuts.push_back(below(random, ids + 1));
    std::sort(cuts.begin(), cuts.end());
    for (std::uint32_t i = 0; i < geometry.tp; ++i) geometry.shards[i] = {cuts[i], cuts[i + 1] - cuts[i]};
}

gpu_writer::LeanWant random_want(Random& random) {
    constexpr float kTemperatures[] = {0.0F, 0.05F, 0.7F, 1.0F, 3.0F};
    constexpr std::uint16_t kCounts[] = {0, 1, 5, 16, 32, 1000};
    gpu_writer::LeanWant want;
    want.key = {random(), below(random, 5000), below(random, 3)};
    want.temperature = kTemperatures[random() % std::size(kTemperatures)];
    want.scale = want.temperature > 0 ? 1.0 / static_cast<double>(want.temperature) : 1.0;
    want.by_maximum = kCounts[random() % std::size(kCounts)];
    want.by_race = kCounts[random() % std::size(kCounts)];
    constexpr float kReaches[] = {0.0F, 0.5F, 6.0F, 1e6F};
    if (random() % 2 == 0) want.reach = kReaches[random() % std::size(kReaches)];
    want.flags = request::Wants::of(below(random, 4));
    if (random() % 2 == 0) want.flags.add(request::Want::block_weights);
    if (random() % 3 == 0) want.flags.add(request::Want::spread);
    if (random() % 5 == 0) want.flags.add(request::Want::whole);
    if (random() % 3 == 0) want.flags.add(request::Want::draw);
    if (random() % 2 == 0) want.flags.add(request::Want::racers);
    if (random() % 3 == 0) want.flags.add(request::Want::best_entries);
    return want;
}

void fill_rows(LeanCase& of, std::uint64_t padding, Random& random) {
    const Dtype dtype = of.geometry.dtype;
    const std::uint32_t count = of.geometry.shards[of.rank].count;
    of.rows.stride = count + padding;
    of.rows.bytes.assign((of.skipped + of.columns() * of.rows.stride) * proto::element_bytes(dtype), 0x3C);
    for (std::size_t column = 0; column < of.columns(); ++column) {
        const auto row = static_cast<Row>(random() % static_cast<std::uint64_t>(Row::count_));
        unsigned char* to =
            of.rows.bytes.data() + (of.skipped + column * of.rows.stride) * proto::element_bytes(dtype);
        fill_row(row, dtype, to, count, random);
    }
}

// Words that allow nearly all, half, few, or nothing and all by turns.
std::uint32_t mask_word(std::uint32_t kind, Random& random) {
    const auto word = static_cast<std::uint32_t>(random());
    const auto other = static_cast<std::uint32_t>(random());
    if (kind == 0) return word | other;
    if (kind == 1) return word;
    if (kind == 2) return random() % 8 == 0 ? word & other & static_cast<std::uint32_t>(random()) : 0;
    return random() % 2 == 0 ? 0 : 0xFFFFFFFF;
}

// What stands whole has none.
void add_masks(LeanCase& of, Random& random) {
    constexpr std::uint32_t kKinds = 4;
    for (std::uint32_t row = 0; row < kKinds; ++row) {
        for (std::uint32_t word = 0; word < of.mask_words(); ++word)
            of.masks.push_back(mask_word(row, random));
    }
    for (gpu_writer::LeanWant& want : of.wants) {
        if (want.flags.has(request::Want::whole) || random() % 2 == 0) continue;
        want.mask_row = static_cast<std::uint16_t>(1 + below(random, kKinds));
    }
}

// Ids of this rank or another, some of them none at all.
void add_names(LeanCase& of, Random& random) {
    using gpu_writer::StepNames;
    constexpr std::uint32_t kFew = 20;
    constexpr std::uint32_t kMany = 300;
    of.names.clear();
    for (gpu_writer::LeanWant& want : of.wants) {
        if (random() % 2 == 0) continue;
        const std::uint32_t count = below(random, random() % 4 == 0 ? kMany : kFew);
        want.named = static_cast<std::uint16_t>(count);
        want.names_line = static_cast<std::uint16_t>(of.names.size() / StepNames::kLineWords);
        const std::size_t at = of.names.size();
        of.names.resize(of.names.size() + StepNames::words_of(count), StepNames::kNoId);
        std::uint32_t* const list = of.names.data() + at;
        for (std::uint32_t i = 0; i < count; ++i)
            list[StepNames::kHeadWords + i] = below(random, of.geometry.vocab + 5);
        list[0] = count;
        list[1] = proto::word_of_ids(count, [&](std::uint32_t i) { return list[StepNames::kHeadWords + i]; });
    }
    // Where no column names any, there is a place all the same.
    of.names.resize(of.names.size() + 1);
}

}  // namespace

LeanCase random_case(Random& random) {
    LeanCase made;
    proto::Geometry& geometry = made.geometry;
    geometry.dtype = static_cast<Dtype>(random() % 3);
    geometry.vocab = 1 + below(random, random() % 4 == 0 ? 30000 : 700);
    geometry.tp = 1 + below(random, 3);
    geometry.tile = proto::kBlockIds;
    geometry.max_batch = 1 + below(random, 9);
    geometry.lean_blocks = proto::kLeanGranule * (1 + below(random, 3));
    cut_shards(geometry, random);
    made.rank = below(random, geometry.tp);
    made.wants.resize(1 + below(random, geometry.max_batch));
    std::generate(made.wants.begin(), made.wants.end(), [&] { return random_want(random); });
    // As if each were another window's row.
    std::vector<std::uint16_t> places(made.wants.size());
    std::iota(places.begin(), places.end(), std::uint16_t{0});
    Random other(made.geometry.vocab);
    std::shuffle(places.begin(), places.end(), other);
    for (std::size_t i = 0; i < places.size(); ++i) made.wants[i].place = places[i];
    made.skipped = random() % 3 == 0 ? below(random, 9) : 0;
    const std::uint64_t aligned = (16 - geometry.shards[made.rank].count % 16) % 16;
    fill_rows(made, random() % 3 == 0 ? random() % 9 : aligned, random);
    add_masks(made, random);
    add_names(made, random);
    return made;
}

LeanCase masked_case(std::uint32_t vocab, std::uint32_t columns, std::uint32_t lean_blocks) {
    LeanCase made = usual_case(vocab, columns, lean_blocks);
    Random random(vocab);
    add_masks(made, random);
    add_names(made, random);
    return made;
}

LeanCase usual_case(std::uint32_t vocab, std::uint32_t columns, std::uint32_t lean_blocks) {
    Random random(vocab + columns);
    LeanCase made;
    made.geometry.vocab = vocab;
    made.geometry.max_batch = columns;
    made.geometry.lean_blocks = lean_blocks;
    proto::fill_even_shards(made.geometry);
    made.wants.resize(columns);
    std::uint16_t place = 0;
    for (gpu_writer::LeanWant& want : made.wants) {
        want.place = place++;
        want.key = {random(), below(random, 5000), 0};
        want.temperature = 0.7F;
        want.scale = 1 / 0.7;
        want.flags = request::Want::sum_at_one | request::Want::sum_at_scale;
        want.flags.add(random() % 2 == 0 ? request::Want::block_weights : request::Want::spread);
        if (random() % 2 == 0) want.flags.add(request::Want::racers);
        want.by_maximum = static_cast<std::uint16_t>(lean_blocks / 2);
        want.by_race = static_cast<std::uint16_t>(lean_blocks / 2);
    }
    made.rows.stride = vocab;
    made.rows.bytes.resize(std::size_t{vocab} * columns * 2);
    fill_row(Row::near, Dtype::bf16, made.rows.bytes.data(), std::size_t{vocab} * columns, random);
    return made;
}

LeanCase stairs_case(std::uint32_t blocks, std::uint32_t wanted, Dtype dtype) {
    Random random(blocks);
    LeanCase made = usual_case(blocks * 64, 1, proto::kMostLeanBlocks);
    made.geometry.dtype = dtype;
    made.wants[0].by_maximum = static_cast<std::uint16_t>(wanted);
    made.wants[0].by_race = 0;
    made.rows.bytes.resize(std::size_t{blocks} * 64 * proto::element_bytes(dtype));
    fill_row(Row::stairs, dtype, made.rows.bytes.data(), std::size_t{blocks} * 64, random);
    return made;
}

LeanCase drawn_case(std::uint32_t vocab, Random& random) {
    constexpr float kTemperatures[] = {0.0F, 0.01F, 0.3F, 0.7F, 1.0F, 1.5F, 5.0F};
    constexpr auto kRows = static_cast<std::uint32_t>(Row::count_);
    LeanCase made = usual_case(vocab, kRows, 32);
    const Dtype dtype = made.geometry.dtype = static_cast<Dtype>(random() % 3);
    const std::size_t row_bytes = std::size_t{vocab} * proto::element_bytes(dtype);
    made.rows.bytes.resize(row_bytes * kRows);
    for (std::uint32_t row = 0; row < kRows; ++row) {
        constexpr request::Wants kRacers = request::Want::racers | request::Want::sum_at_scale;
        made.wants[row].flags = random() % 2 == 0 ? request::Wants(request::Want::draw) : kRacers;
        made.wants[row].by_race = static_cast<std::uint16_t>(1 + below(random, 300));
        made.wants[row].temperature = kTemperatures[random() % std::size(kTemperatures)];
        fill_row(static_cast<Row>(row), dtype, made.rows.bytes.data() + row * row_bytes, vocab, random);
    }
    return made;
}

}  // namespace croupier::testing
