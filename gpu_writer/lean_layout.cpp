#include "gpu_writer/lean_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "gpu_writer/element_codes.h"

namespace croupier::gpu_writer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row in whole blocks, in the order of their ids, and the largest entry of each.
struct MeasuredRow {
    proto::Dtype dtype;
    std::size_t block_bytes;
    std::vector<std::byte> elements;
    std::vector<float> maxima;

    MeasuredRow(const SliceShape& of, const void* row)
        : dtype(of.dtype),
          block_bytes(std::size_t{proto::kBlockIds} * proto::element_bytes(of.dtype)),
          elements(of.blocks * block_bytes),
          maxima(of.blocks) {
        const SliceShape alone{of.dtype, proto::kBlockIds, 1, of.lead, of.entries, of.blocks, nullptr};
        lay_rows(alone, 0, {&row, 1}, {elements.data(), maxima.data(), of.blocks});
        // One zero, and one NaN (code_of()), so that the bytes are the same wherever they are made.
        for (float& most : maxima) most += 0.0F;
    }
    std::uint32_t code(std::size_t entry) const {
        const std::size_t size = proto::element_bytes(dtype);
        std::uint32_t code = 0;
        std::memcpy(&code, elements.data() + entry * size, size);
        return code;
    }
    float value(std::size_t entry) const { return value_of_code(dtype, code(entry)); }
    std::uint32_t code_of_maximum(std::size_t block) const {
        const float most = maxima[block];
        if (std::isnan(most)) return quiet_nan(dtype);
        if (most == 0) return 0;
        std::size_t entry = block * proto::kBlockIds;
        while (value(entry) != most) ++entry;
        return code(entry);
    }
    // Of its entries' weights, in units of the largest one's; 0 where one is not finite, but for -inf.
    double weight(double scale) const {
        const auto most = finite_maximum();
        return most ? weight_of(0, maxima.size() * proto::kBlockIds, *most, scale) : 0.0;
    }
    // Without tokens where one entry is not finite, but for -inf.
    proto::RowSpread spread(double scale) const {
        proto::RowSpread spread;
        const auto most = finite_maximum();
        for (std::size_t entry = 0; most && entry < maxima.size() * proto::kBlockIds; ++entry) {
            const double distance = double{value(entry)} - *most;
            if (std::isinf(distance)) continue;
            const double weight = std::exp(distance * scale);
            spread.add({1.0, distance, distance * distance, weight, weight * distance});
        }
        return spread;
    }
    // As proto::kWeighsBlocks has it. A little less than it is: a device's sums are off.
    std::uint8_t weight_code(std::size_t block, double scale) const {
        if (!std::isfinite(maxima[block])) return 0;
        const std::size_t first = block * proto::kBlockIds;
        const double weight = weight_of(first, first + proto::kBlockIds, maxima[block], scale);
        return code_of_weight(static_cast<float>(std::log2(weight)));
    }

  private:
    // Nothing: an entry is NaN or +inf, or all are -inf.
    std::optional<double> finite_maximum() const {
        double most = -std::numeric_limits<double>::infinity();
        for (const float each : maxima) {
            if (std::isnan(each) || each == kInfinity) return std::nullopt;
            most = std::max(most, double{each});
        }
        return std::isinf(most) ? std::nullopt : std::optional(most);
    }
    double weight_of(std::size_t first, std::size_t end, double most, double scale) const {
        double sum = 0;
        for (std::size_t entry = first; entry < end; ++entry) {
            sum += std::exp((double{value(entry)} - most) * scale);
        }
        return sum;
    }
};

// Adds the blocks of the highest ranks, about as many as the share wants.
void choose(const std::vector<std::uint32_t>& ranks, const LeanShare& share, float reach,
            std::vector<bool>& chosen) {
    if (ranks.empty()) return;
    const auto above = [&](std::uint32_t rank) {
        return static_cast<std::uint32_t>(
            std::count_if(ranks.begin(), ranks.end(), [=](std::uint32_t each) { return each > rank; }));
    };
    const std::uint32_t top = *std::max_element(ranks.begin(), ranks.end());
    RankSearch search(share, top, least_rank(top, reach));
    while (!search.ended()) search.take(above(search.first()), above(search.second()));
    std::uint32_t ties = search.ties();
    for (std::size_t block = 0; block < ranks.size(); ++block) {
        if (ranks[block] < search.rank()) continue;
        if (ranks[block] == search.rank()) {
            if (ties == 0) continue;
            --ties;
        }
        chosen[block] = true;
    }
}

ColumnPlan plan_of(const LeanShape& shape, const LeanWant& want) {
    return {want, shape.span(), shape.room, proto::element_bytes(shape.slice.dtype)};
}

std::vector<bool> chosen_blocks(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row) {
    namespace race = proto::race;
    std::vector<bool> chosen(shape.slice.blocks);
    if ((want.flags & kWhole) != 0) return chosen;
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        chosen[block] = shape.span().always_sent(block);
    }
    const LeanShares shares = plan_of(shape, want).shares;
    std::vector<std::uint32_t> ranks(shape.slice.blocks);
    std::transform(row.maxima.begin(), row.maxima.end(), ranks.begin(), rank_of);
    choose(ranks, shares.by_maximum, want.reach, chosen);
    if (shares.by_race.wanted == 0) return chosen;
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        const float ln_first = race::ln(
            race::first_arrival(race::word_of(want.key, race::kBlockStream, shape.first_block + block)));
        ranks[block] = race_rank(ranks[block], want.temperature, ln_first);
    }
    choose(ranks, shares.by_race, kInfinity, chosen);
    return chosen;
}

// The winner among the row's tokens. Nothing: a logit is NaN or +inf, or none is above -inf.
std::optional<proto::race::Draw> draw_of(const LeanShape& shape, const LeanWant& want,
                                         const MeasuredRow& row) {
    namespace race = proto::race;
    std::optional<race::Draw> best;
    float rival = -kInfinity;
    for (std::uint32_t entry = 0; entry < row.maxima.size() * proto::kBlockIds; ++entry) {
        const float logit = row.value(entry);
        if (std::isnan(logit) || logit == kInfinity) return std::nullopt;
        if (logit == -kInfinity) continue;
        race::Draw draw{want.key, want.temperature, shape.first_block * proto::kBlockIds + entry, logit, 0};
        if (want.temperature > 0.0F) {
            draw.score = race::score(logit, want.temperature, race::ln(race::arrival(want.key, draw.token)));
        }
        // One zero, as with maxima.
        draw.score += 0.0F;
        const bool leads = !best || draw.beats(*best);
        if (best) rival = std::max(rival, leads ? best->score : draw.score);
        if (leads) best = draw;
    }
    if (best) best->rival = rival;
    return best;
}

void lay_column(const LeanShape& shape, std::uint32_t column, const LeanWant& want, const MeasuredRow& row,
                std::byte* part) {
    const std::size_t element = proto::element_bytes(shape.slice.dtype);
    std::byte* maxima = part + shape.layout.maxima + column * shape.layout.maxima_stride;
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        const std::uint32_t code = row.code_of_maximum(block);
        std::memcpy(maxima + block * element, &code, element);
    }
    proto::LeanHead head{};
    const bool whole = (want.flags & kWhole) != 0;
    const bool draws = !whole && (want.flags & (kDraw | kDrawBeside)) != 0;
    const auto draw = draws ? draw_of(shape, want, row) : std::nullopt;
    if (draw) head.draw = *draw;
    const bool drawn = draw && (want.flags & kDraw) != 0;
    std::byte* ids = part + shape.layout.blocks + column * shape.layout.blocks_stride;
    std::byte* elements = part + shape.layout.elements + column * shape.layout.elements_stride;
    const std::vector<bool> chosen = chosen_blocks(shape, want, row);
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        if (!chosen[block] || drawn) continue;
        const auto id = static_cast<std::uint16_t>(block);
        std::memcpy(ids + head.sent * sizeof(id), &id, sizeof(id));
        std::memcpy(elements + head.sent * row.block_bytes, row.elements.data() + block * row.block_bytes,
                    row.block_bytes);
        ++head.sent;
    }
    if (whole) head.flags = proto::kStandsWhole;
    if (draw) head.flags = drawn ? proto::kDrawn : proto::kDrawnBeside;
    if (sums_spread(want)) {
        head.flags |= proto::kHasSpread;
        const proto::LeanSpread spread{row.spread(want.scale)};
        std::memcpy(part + shape.layout.spread(column), &spread, sizeof(spread));
    }
    if (!drawn && plan_of(shape, want).weighs) {
        head.flags |= proto::kWeighsBlocks;
        std::byte* weights = part + shape.layout.block_weights(column, shape.slice.blocks);
        for (std::uint32_t block = 0; block < shape.slice.blocks; ++block)
            weights[block] = std::byte{row.weight_code(block, want.scale)};
    }
    head.scale = want.scale;
    if ((want.flags & kSumAtOne) != 0) head.weight = row.weight(1.0);
    if ((want.flags & kSumAtScale) != 0) head.weight_at_scale = row.weight(want.scale);
    std::memcpy(part + shape.layout.heads + column * sizeof(head), &head, sizeof(head));
}

}  // namespace

LeanShape lean_shape(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                     std::span<const std::uint32_t> order) {
    return {slice_shape(geometry, rank, columns, order), geometry.shards[rank].first_block(),
            geometry.lean_blocks, proto::lean_layout_of(geometry, rank)};
}

void lay_lean_column(const LeanShape& shape, std::uint32_t column, const LeanWant& want, const void* row,
                     const LeanMemory& memory) {
    lay_column(shape, column, want, MeasuredRow(shape.slice, row), memory.part);
    if ((want.flags & kWhole) != 0) lay_rows(shape.slice, column, {&row, 1}, {memory.slice, nullptr, 0});
}

void lay_lean(const LeanShape& shape, std::span<const LeanWant> wants, std::span<const void* const> rows,
              const LeanMemory& memory) {
    for (std::uint32_t column = 0; column < rows.size(); ++column)
        lay_lean_column(shape, column, wants[column], rows[column], memory);
}

void lay_blocks(const LeanShape& shape, std::uint32_t column, const void* row,
                std::span<const std::uint64_t> bitmap, void* slice) {
    const SliceShape& of = shape.slice;
    const MeasuredRow measured(of, row);
    const std::size_t element = proto::element_bytes(of.dtype);
    for (std::size_t place = 0; place < of.places(); ++place) {
        const std::size_t at = place / proto::kBlockIds;
        const std::size_t block = of.order == nullptr ? at : of.order[at];
        if ((bitmap[block / 64] >> (block % 64) & 1U) == 0) continue;
        const std::size_t to = (place / of.tile * of.columns + column) * of.tile + place % of.tile;
        std::memcpy(
            static_cast<std::byte*>(slice) + to * element,
            measured.elements.data() + (block * proto::kBlockIds + place % proto::kBlockIds) * element,
            element);
    }
}

}  // namespace croupier::gpu_writer
