#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "proto/decision_slot.h"
#include "proto/lean_part.h"
#include "proto/logits_slot.h"
#include "proto/request_cell.h"
#include "proto/schedule_slot.h"
#include "proto/segment_header.h"
#include "proto/sequence_entry.h"
#include "random_geometry.h"

using namespace croupier::proto;

namespace {

struct Region {
    std::string name;
    std::uint64_t start;
    std::uint64_t bytes;
    std::uint64_t alignment;
};

std::vector<Region> regions_of(const Geometry& g, const SegmentLayout& l) {
    std::uint64_t order_words = g.blocks();
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) order_words += g.shards[rank].blocks();
    return {
        {"header", 0, kHeaderBytes, 4096},
        {"order", l.order, g.has_order * order_words * 4, 4096},
        {"hot blocks", l.hot_blocks, g.has_order * kHotSizes.size() * g.tp * std::uint64_t{4}, 64},
        {"sequences", l.sequences, l.sequence_stride * g.max_sequences, 4096},
        {"schedule", l.schedule, l.schedule_stride * g.slots, 4096},
        {"decisions", l.decisions, l.decision_stride * g.slots, 4096},
        {"randoms", l.randoms, l.random_stride * g.slots, 4096},
        {"masks", l.masks, g.mask_rows == 0 ? 0 : l.mask_stride * g.slots, 4096},
        {"ready", l.ready, l.ready_stride * g.slots, 4096},
        {"logits", l.logits, l.logits_stride * g.slots, 4096},
        {"support", l.support, g.max_support == 0 ? 0 : l.support_slot_stride * g.slots, 4096},
        {"lean parts", l.lean, l.lean_slot_stride * g.slots, 4096},
        {"block requests", l.requests, l.request_slot_stride * g.slots, 4096},
        {"tokens' bytes", l.token_table, g.token_table_bytes, 4096},
        {"token logs", l.token_logs, l.token_log_stride * g.max_sequences, 4096},
    };
}

std::vector<Region> parts_of_lean_rank(const Geometry& g, std::uint32_t rank) {
    const LeanLayout l = lean_layout_of(g, rank);
    const std::uint64_t columns = g.max_batch;
    const std::uint64_t blocks = g.shards[rank].blocks();
    REQUIRE(l.maxima_stride >= blocks * element_bytes(g.dtype));
    REQUIRE(l.blocks_stride >= g.lean_blocks * sizeof(std::uint16_t));
    REQUIRE(blocks <= 0x10000);
    return {{"heads", l.heads, columns * sizeof(LeanHead), 64},
            {"maxima", l.maxima, columns * l.maxima_stride, 64},
            {"blocks", l.blocks, columns * l.blocks_stride, 64},
            {"elements", l.elements, columns * g.lean_blocks * kBlockIds * element_bytes(g.dtype), 64}};
}

std::vector<Region> parts_of_request(const Geometry& g) {
    const RequestLayout l = request_layout_of(g);
    REQUIRE(l.words * 64 >= g.blocks());
    return {{"word", 0, sizeof(RequestCell), 64},
            {"answers", l.answers, g.tp * sizeof(std::uint64_t), 64},
            {"bits", l.bits, l.words * sizeof(std::uint64_t), 64}};
}

// The parts of one slot or entry, in the bytes that their elements need.
std::vector<Region> parts_of_sequence(const Geometry& g, const SegmentLayout& l) {
    return {{"entry", 0, sizeof(SequenceEntry), 64},
            {"params", l.params_offset, l.elements.params, 64},
            {"feedback", l.feedback_offset, sizeof(KeptFeedback), 64},
            {"biases", l.bias_offset, std::uint64_t{g.max_bias} * sizeof(TokenBias), 64},
            {"stops", l.stops_offset, std::uint64_t{g.max_stop_ids} * 4, 64},
            {"lists", l.lists_offset, std::uint64_t{g.max_list_tokens} * 4, 64}};
}

std::vector<Region> parts_of_decision_slot(const Geometry& g, const SegmentLayout& l) {
    return {{"head", 0, sizeof(DecisionSlotHead), 64},
            {"bitmap", sizeof(DecisionSlotHead), std::uint64_t{bitmap_words(g.max_batch)} * 8, 64},
            {"claims", l.claims_offset, std::uint64_t{g.max_batch} * 8, 64},
            {"crashes", l.crashes_offset, std::uint64_t{g.max_batch} * 4, 64},
            {"decisions", l.decision_offset, std::uint64_t{g.max_batch} * l.elements.decision, 64},
            {"log-probs", l.logprobs_offset, g.max_logprobs == 0 ? 0 : l.logprobs_stride * g.max_batch, 64}};
}

std::vector<Region> parts_of_logits_slot(const Geometry& g, const SegmentLayout& l) {
    std::vector<Region> parts;
    for (std::uint32_t rank = 0; rank < g.tp; ++rank) {
        const std::uint64_t elements = std::uint64_t{g.tiles(rank)} * g.tile * g.row_places(g.max_batch);
        parts.push_back(
            {"rank " + std::to_string(rank), l.rank_offset[rank], elements * element_bytes(g.dtype), 4096});
        parts.push_back({"maxima of rank " + std::to_string(rank), l.maxima_offset[rank],
                         g.has_summaries * std::uint64_t{g.maxima_stride(rank)} * g.max_batch * sizeof(float),
                         4096});
    }
    return parts;
}

void require_disjoint_within(std::vector<Region> regions, std::uint64_t total) {
    std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
        return a.start != b.start ? a.start < b.start : a.bytes < b.bytes;
    });
    std::uint64_t end = 0;
    for (const auto& region : regions) {
        INFO(region.name << " at " << region.start << " of " << region.bytes << " bytes, previous end "
                         << end);
        REQUIRE(region.start % region.alignment == 0);
        REQUIRE(region.start >= end);
        end = region.start + region.bytes;
    }
    REQUIRE(end <= total);
}

}  // namespace

namespace {

// `ours`: begun where this build begins each part.
void require_sound(const Geometry& g, const SegmentLayout& l, bool ours = true) {
    const auto require = [&](std::vector<Region> regions, std::uint64_t total) {
        if (!ours) {
            // The address of an empty part is computed too.
            for (auto& region : regions) {
                REQUIRE(region.start <= total);
                region.alignment = 64;
            }
            std::erase_if(regions, [](const Region& region) { return region.bytes == 0; });
        }
        require_disjoint_within(regions, total);
    };
    require(regions_of(g, l), l.total_bytes);
    require(parts_of_sequence(g, l), l.sequence_stride);
    require(parts_of_decision_slot(g, l), l.decision_stride);
    require(parts_of_logits_slot(g, l), l.logits_stride);
    if (g.lean_blocks > 0) {
        for (std::uint32_t rank = 0; rank < g.tp; ++rank)
            require(parts_of_lean_rank(g, rank), l.lean_rank_stride);
        require(parts_of_request(g), l.request_stride);
        REQUIRE(l.lean_slot_stride >= g.tp * l.lean_rank_stride);
        REQUIRE(l.request_slot_stride >= sizeof(RequestBoard) + g.max_batch * l.request_stride);
    }
    REQUIRE(l.schedule_stride >= l.columns_offset + g.max_batch * l.elements.column);
    REQUIRE(l.columns_offset >= sizeof(ScheduleRecord));
    REQUIRE(l.logprobs_stride >= (g.max_logprobs == 0 ? 0 : (g.max_logprobs + 1) * l.elements.ranked));
    if (g.max_support > 0) {
        REQUIRE(l.support_stride >= (g.max_support + 1) * sizeof(Survivor));
        REQUIRE(l.support_slot_stride >= l.support_stride * g.max_batch);
    }
    REQUIRE(l.random_stride >= 64 + g.max_batch * sizeof(ColumnRandoms));
    if (g.mask_rows > 0) REQUIRE(l.mask_row_words * 32 >= g.vocab);
    if (g.mask_rows > 0) REQUIRE(l.mask_stride >= l.mask_row_words * 4 * g.mask_rows);
    REQUIRE(l.ready_stride >= g.tp * sizeof(ReadyCell));
}

}  // namespace

TEST_CASE("regions and their parts are disjoint, aligned and within the total, for thousands of geometries") {
    RandomGeometry random(2);
    for (int i = 0; i < 5000; ++i) {
        const Geometry g = random.draw();
        const SegmentLayout l = layout_of(g);
        INFO("geometry " << i << ": vocab " << g.vocab << " tp " << g.tp << " batch " << g.max_batch
                         << " slots " << g.slots << " tile " << g.tile);
        require_sound(g, l);
        REQUIRE(l.mask_row_words * 32 >= g.vocab);
        REQUIRE(l.total_bytes % 4096 == 0);
    }
}

TEST_CASE("maxima stand behind their rank's slice, and without summaries nothing is kept for them") {
    Geometry g;
    g.vocab = 1024;
    g.tp = 2;
    g.max_batch = 32;
    g.slots = 3;
    fill_even_shards(g);
    const SegmentLayout without = layout_of(g);
    g.has_summaries = 1;
    const SegmentLayout with = layout_of(g);
    // Eight tiles of 64 a rank: of two bytes an entry, and a float for each tile, sixteen with the padding.
    constexpr std::uint64_t kSlice = std::uint64_t{8} * 32 * 64 * 2;
    constexpr std::uint64_t kMaxima = 4096;  // no more than 32 * 16 * 4
    CHECK(without.rank_offset[1] == kSlice);
    CHECK(without.logits_stride == 2 * kSlice);
    CHECK(with.maxima_offset[0] == kSlice);
    CHECK(with.rank_offset[1] == kSlice + kMaxima);
    CHECK(with.maxima_offset[1] == kSlice + kMaxima + kSlice);
    CHECK(with.logits_stride == 2 * (kSlice + kMaxima));
    CHECK(with.total_bytes == without.total_bytes + 6 * kMaxima);
}

TEST_CASE("a lean session has room for a whole row of each window, and one of whole rows for each row") {
    Geometry g;
    g.vocab = 1024;
    g.max_batch = 40;
    fill_even_shards(g);
    const std::uint64_t all = layout_of(g).logits_stride;
    CHECK(all == std::uint64_t{40} * 1024 * 2);
    g.max_windows = 8;
    CHECK(layout_of(g).logits_stride == all);
    g.lean_blocks = kLeanGranule;
    CHECK(layout_of(g).logits_stride == all / 5);
    CHECK(g.row_places(40) == 8);
    CHECK(g.row_places(5) == 5);
    g.max_windows = 0;
    CHECK(layout_of(g).logits_stride == all);
}

TEST_CASE("slots start on cache lines of their own") {
    RandomGeometry random(3);
    for (int i = 0; i < 1000; ++i) {
        const SegmentLayout l = layout_of(random.draw());
        for (const std::uint64_t stride : {l.sequence_stride, l.schedule_stride, l.decision_stride,
                                           l.random_stride, l.mask_stride, l.ready_stride, l.logits_stride}) {
            REQUIRE(stride % 64 == 0);
        }
    }
}

TEST_CASE("elements of other sizes are laid apart, and what is laid is found without fault") {
    RandomGeometry random(5);
    const ElementBytes wide = {sizeof(SamplingParams) + 40, sizeof(ScheduleColumn) + 8, sizeof(Decision) + 16,
                               sizeof(RankedLogprob) + 4};
    for (int i = 0; i < 2000; ++i) {
        const Geometry g = random.draw();
        for (const ElementBytes& elements : {ElementBytes{}, wide}) {
            const SegmentLayout l = layout_of(g, elements);
            REQUIRE_FALSE(layout_fault(g, l, l.total_bytes));
            require_sound(g, l);
        }
    }
}

TEST_CASE("a layout with any word changed is refused, or still keeps its parts apart and within the file") {
    RandomGeometry random(6);
    std::mt19937_64 bits(7);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        const Geometry g = random.draw();
        const SegmentLayout sound = layout_of(g);
        SegmentLayout changed = sound;
        auto* words = reinterpret_cast<std::uint64_t*>(&changed);
        const std::size_t used = offsetof(SegmentLayout, rank_offset) / 8 + g.tp;
        std::uint64_t& word = words[bits() % used];
        const std::array<std::uint64_t, 7> values = {
            word + 64, word - 64, word + 4096, word * 2, 0, bits(), ~std::uint64_t{0} - bits() % 4096};
        word = values[bits() % values.size()];
        INFO("geometry " << i << ", word " << &word - words << " is " << word);
        if (layout_fault(g, changed, sound.total_bytes)) {
            ++refused;
            continue;
        }
        require_sound(g, changed, false);
    }
    CHECK(refused > 1500);
}

TEST_CASE("a layout depends on nothing but the geometry") {
    RandomGeometry random(4);
    for (int i = 0; i < 100; ++i) {
        const Geometry g = random.draw();
        REQUIRE(layout_of(g) == layout_of(Geometry(g)));
    }
}

TEST_CASE("the header's checksum covers every byte before it") {
    SegmentHeader header{};
    const std::uint64_t clean = header_checksum(header);
    auto* bytes = reinterpret_cast<unsigned char*>(&header);
    for (std::size_t i = 0; i < offsetof(SegmentHeader, checksum); ++i) {
        bytes[i] ^= 0x10U;
        INFO("byte " << i);
        REQUIRE(header_checksum(header) != clean);
        bytes[i] ^= 0x10U;
    }
    CHECK(header_checksum(header) == clean);
}

TEST_CASE("every counter has a place of its own, and no two authors' counters share a cache line") {
    const auto line = [](SessionCounter which) { return counter_place(which) / kCountersInLine; };
    const auto last = static_cast<std::uint32_t>(SessionCounter::count_);
    std::set<std::size_t> places;
    std::set<std::size_t> lines;
    for (std::uint32_t which = 0; which < last; ++which) {
        places.insert(counter_place(static_cast<SessionCounter>(which)));
        lines.insert(line(static_cast<SessionCounter>(which)));
    }
    CHECK(places.size() == last);
    CHECK(*places.rbegin() < kCounterLines * kCountersInLine);
    CHECK(lines.size() == kCounterLines);
    CHECK(line(SessionCounter::steps_taken) == line(SessionCounter::clients_attached));
    CHECK(line(SessionCounter::columns_decided) == line(SessionCounter::records_refused));
    CHECK(line(SessionCounter::clients_attached) != line(SessionCounter::columns_decided));
    CHECK(line(SessionCounter::records_refused) != line(SessionCounter::stale_epoch_refused));
    CHECK(offsetof(SegmentHeader, counters) % 64 == 0);
}
