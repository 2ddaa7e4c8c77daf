#include "gpu_writer/lean_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "gpu_writer/element_codes.h"
#include "gpu_writer/measured_row.h"

namespace croupier::gpu_writer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t count_above(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
    return static_cast<std::uint32_t>(
        std::count_if(ranks.begin(), ranks.end(), [=](std::uint32_t each) { return each > rank; }));
}

// The rank above which about as many are as the share wants.
RankSearch search_of(const std::vector<std::uint32_t>& ranks, const LeanShare& share, float reach) {
    const std::uint32_t top = *std::max_element(ranks.begin(), ranks.end());
    RankSearch search(share, top, least_rank(top, reach));
    while (!search.ended())
        search.take(count_above(ranks, search.first()), count_above(ranks, search.second()));
    return search;
}

// Adds the blocks of the highest ranks, about as many as the share wants.
void choose(const std::vector<std::uint32_t>& ranks, const LeanShare& share, float reach,
            std::vector<bool>& chosen) {
    if (ranks.empty()) return;
    const RankSearch search = search_of(ranks, share, reach);
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

// What the blocks may score at most, as ranks, from what their largest entries have.
std::vector<std::uint32_t> race_ranks(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row) {
    namespace race = proto::race;
    std::vector<std::uint32_t> ranks(shape.slice.blocks);
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        const float ln_first = race::ln(
            race::first_arrival(race::word_of(want.key, race::kBlockStream, shape.first_block + block)));
        ranks[block] = race_rank(rank_of(row.maxima[block]), want.temperature, ln_first);
    }
    return ranks;
}

std::vector<bool> chosen_blocks(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row) {
    std::vector<bool> chosen(shape.slice.blocks);
    if (want.flags.has(Want::whole)) return chosen;
    for (std::uint32_t block = 0; block < shape.slice.blocks; ++block) {
        chosen[block] = shape.span().always_sent(block);
    }
    const ColumnPlan plan = plan_of(shape, want);
    std::vector<std::uint32_t> ranks(shape.slice.blocks);
    std::transform(row.maxima.begin(), row.maxima.end(), ranks.begin(), rank_of);
    if (!plan.lists) choose(ranks, plan.shares.by_maximum, want.reach, chosen);
    if (plan.shares.by_race.wanted > 0 && !plan.racers)
        choose(race_ranks(shape, want, row), plan.shares.by_race, kInfinity, chosen);
    return chosen;
}

struct EntryList {
    proto::BestEntries head;
    bool reaches;  // as lists_reach()
    std::vector<proto::BestEntry> entries;
};

// As many of the best as the column wants, if there is room for them all; else as many as have room of those
// that are not alike. Nothing: as draw_of().
std::optional<EntryList> best_entries_of(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row,
                                         std::size_t room) {
    if (!row.finite_maximum()) return std::nullopt;
    std::vector<std::uint32_t> maxima(row.maxima.size());
    std::transform(row.maxima.begin(), row.maxima.end(), maxima.begin(), rank_of);
    const std::uint32_t top = *std::max_element(maxima.begin(), maxima.end());
    std::vector<std::uint32_t> ranks(maxima.size() * proto::kBlockIds);
    for (std::size_t entry = 0; entry < ranks.size(); ++entry)
        ranks[entry] = rank_of(row.value(entry) + 0.0F);
    std::uint32_t bar = search_of(maxima, opened_for_entries(want.by_maximum), want.reach).enough_above();
    if (count_above(ranks, bar) > room) {
        RankSearch search = search_among(want.by_maximum, static_cast<std::uint32_t>(room), top, bar);
        while (!search.ended())
            search.take(count_above(ranks, search.first()), count_above(ranks, search.second()));
        bar = search.rank();
    }
    EntryList list;
    for (std::uint32_t entry = 0; entry < ranks.size(); ++entry) {
        if (ranks[entry] > bar)
            list.entries.push_back({shape.first_block * proto::kBlockIds + entry, row.value(entry)});
    }
    list.head = {value_of_rank(bar), static_cast<std::uint32_t>(list.entries.size())};
    list.reaches = lists_reach(want, top, bar, list.head.count);
    return list;
}

// The best tokens of the blocks that may score most, each above what any token of the others may. Nothing: as
// draw_of(), or none is above that.
std::optional<proto::Racers> racers_of(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row) {
    namespace race = proto::race;
    if (shape.slice.blocks == 0 || !row.finite_maximum()) return std::nullopt;
    const std::vector<std::uint32_t> ranks = race_ranks(shape, want, row);
    const std::uint32_t unopened = search_of(ranks, plan_of(shape, want).shares.by_race, kInfinity).rank();
    std::vector<proto::Racer> found;
    for (std::uint32_t entry = 0; entry < ranks.size() * proto::kBlockIds; ++entry) {
        const float logit = row.value(entry);
        if (ranks[entry / proto::kBlockIds] <= unopened || logit == -kInfinity) continue;
        const std::uint32_t token = shape.first_block * proto::kBlockIds + entry;
        const float arrival = race::arrival(want.key, token);
        // One zero, as with maxima.
        const float score = race::score(logit, want.temperature, race::ln(arrival)) + 0.0F;
        if (rank_of(score) > unopened) found.push_back({token, score, logit, 0});
    }
    if (found.empty()) return std::nullopt;
    std::sort(found.begin(), found.end(),
              [](const proto::Racer& a, const proto::Racer& b) { return a.beats(b); });
    proto::Racers racers{};
    racers.count = std::min(static_cast<std::uint32_t>(found.size()), copy_of(proto::kMostRacers));
    racers.rival = unopened > kEmptyRank ? value_of_rank(unopened) : -kInfinity;
    if (found.size() > racers.count) racers.rival = found[racers.count].score;
    std::copy_n(found.begin(), racers.count, racers.best);
    for (proto::Racer& each : racers.best) each.before = std::numeric_limits<float>::quiet_NaN();
    std::uint32_t which[kMostWeighed];
    const std::uint32_t weighed = want.flags.has(Want::sum_at_scale) ? weighed_racers(racers, which) : 0;
    for (std::uint32_t i = 0; i < weighed; ++i) {
        proto::Racer& racer = racers.best[which[i]];
        racer.before = row.weight_before(racer, shape.first_block, want.scale);
    }
    return racers;
}

proto::race::Draw draw_of(const LeanWant& want, const proto::Racers& racers) {
    const float rival = racers.count > 1 ? racers.best[1].score : racers.rival;
    return {want.key, want.temperature, racers.best[0].token, racers.best[0].score, rival};
}

// The winner among the row's tokens. Nothing: a logit is NaN or +inf, or none is above -inf.
std::optional<proto::race::Draw> draw_of(const LeanShape& shape, const LeanWant& want,
                                         const MeasuredRow& row) {
    namespace race = proto::race;
    std::optional<race::Draw> best;
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
        if (!best || draw.beats(*best)) best = draw;
    }
    return best;
}

// As they stand in the row, whatever a mask hides.
void lay_named(const LeanShape& shape, const LeanWant& want, const MeasuredRow& row, std::byte* to) {
    const std::uint32_t* list = shape.names.of(want);
    std::memcpy(to, list, sizeof(proto::NamedValues));
    const std::size_t element = proto::element_bytes(shape.slice.dtype);
    const std::uint32_t first_id = shape.first_block * proto::kBlockIds + shape.slice.lead;
    for (std::uint32_t i = 0; i < want.named; ++i) {
        const std::uint32_t own = list[StepNames::kHeadWords + i] - first_id;
        const bool is_own = own < shape.slice.entries;
        const std::uint32_t code =
            is_own ? row.code(shape.slice.lead + own) : minus_infinity(shape.slice.dtype);
        std::memcpy(to + sizeof(proto::NamedValues) + i * element, &code, element);
    }
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
    const bool whole = want.flags.has(Want::whole);
    const ColumnPlan plan = plan_of(shape, want);
    const auto draw = !whole && want.flags.has(Want::draw) ? draw_of(shape, want, row) : std::nullopt;
    if (draw) head.draw = *draw;
    const bool drawn = draw.has_value();
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
    std::size_t before = head.sent * shape.layout.block_bytes;
    if (want.named > 0 && !whole && !drawn) {
        head.flags.add(proto::Sent::named_values);
        lay_named(shape, want, row, part + shape.layout.named_values(column, head.sent));
        before += shape.layout.bytes_of_named(want.named);
    }
    bool needs_race = plan.racers;
    if (plan.lists && !drawn) {
        const std::size_t list_room = shape.layout.room_for_entries(before, plan.taken);
        if (const auto list = best_entries_of(shape, want, row, list_room)) {
            needs_race = needs_race && !list->reaches;
            head.flags.add(proto::Sent::best_entries);
            std::byte* to = part + shape.layout.best_entries(column, before);
            std::memcpy(to, &list->head, sizeof(list->head));
            std::memcpy(to + sizeof(list->head), list->entries.data(),
                        list->entries.size() * sizeof(proto::BestEntry));
        }
    }
    const auto racers = needs_race ? racers_of(shape, want, row) : std::nullopt;
    if (racers) head.draw = draw_of(want, *racers);
    if (whole) head.flags = proto::Sent::whole_row;
    if (want.mask_row != 0) head.flags.add(proto::Sent::under_mask);
    const auto is_nothing = [](float most) { return most == -kInfinity; };
    if (!whole && std::all_of(row.maxima.begin(), row.maxima.end(), is_nothing))
        head.flags.add(proto::Sent::nothing);
    if (drawn) head.flags.add(proto::Sent::draw_alone);
    if (racers) head.flags.add(proto::Sent::draw_beside | proto::Sent::race_best);
    if (sums_spread(want)) {
        head.flags.add(proto::Sent::row_spread);
        const proto::LeanSpread spread{row.spread(want.scale)};
        std::memcpy(part + shape.layout.spread(column), &spread, sizeof(spread));
    }
    if (!drawn && plan.weighs) {
        head.flags.add(proto::Sent::weighed_blocks);
        std::byte* weights = part + shape.layout.block_weights(column, shape.slice.blocks);
        for (std::uint32_t block = 0; block < shape.slice.blocks; ++block)
            weights[block] = std::byte{row.weight_code(block, want.scale)};
    }
    if (racers) {
        const std::size_t at = shape.layout.racers(column, head.flags, shape.slice.blocks);
        std::memcpy(part + at, &*racers, sizeof(*racers));
    }
    head.scale = want.scale;
    if (want.flags.has(Want::sum_at_one)) head.weight = row.weight(1.0);
    if (want.flags.has(Want::sum_at_scale)) head.weight_at_scale = row.weight(want.scale);
    std::memcpy(part + shape.layout.heads + column * sizeof(head), &head, sizeof(head));
}

}  // namespace

LeanShape lean_shape(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns) {
    return {slice_shape(geometry, rank, geometry.row_places(columns), {}),
            geometry.shards[rank].first_block(),
            geometry.lean_blocks,
            proto::lean_layout_of(geometry, rank),
            {},
            {}};
}

void lay_lean_column(const LeanShape& shape, std::uint32_t column, const LeanWant& want, const void* row,
                     const LeanMemory& memory) {
    lay_column(shape, column, want, MeasuredRow(shape, row, want.mask_row), memory.part);
    if (want.flags.has(Want::whole)) lay_rows(shape.slice, want.place, {&row, 1}, {memory.slice, nullptr, 0});
}

void lay_lean(const LeanShape& shape, std::span<const LeanWant> wants, std::span<const void* const> rows,
              const LeanMemory& memory) {
    for (std::uint32_t column = 0; column < rows.size(); ++column)
        lay_lean_column(shape, column, wants[column], rows[column], memory);
}

void lay_blocks(const LeanShape& shape, std::uint32_t place, const void* row,
                std::span<const std::uint64_t> bitmap, void* slice) {
    const SliceShape& of = shape.slice;
    const MeasuredRow measured(shape, row, 0);
    const std::size_t bytes = std::size_t{proto::kBlockIds} * proto::element_bytes(of.dtype);
    for (std::size_t block = 0; block < of.blocks; ++block) {
        if ((bitmap[block / 64] >> (block % 64) & 1U) == 0) continue;
        std::memcpy(static_cast<std::byte*>(slice) + (block * of.columns + place) * bytes,
                    measured.elements.data() + block * bytes, bytes);
    }
}

}  // namespace croupier::gpu_writer
