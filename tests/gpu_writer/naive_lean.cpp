#include "tests/gpu_writer/naive_lean.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "proto/race.h"

namespace croupier::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> codes_of(proto::Dtype dtype, const unsigned char* bytes, std::size_t count) {
    const std::size_t size = proto::element_bytes(dtype);
    std::vector<std::uint32_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i], bytes + i * size, size);
    return codes;
}

// The column alone, as the first of some rows.
Rows row_of(const LeanCase& of, std::uint32_t column) {
    const std::size_t size = proto::element_bytes(of.geometry.dtype);
    const auto first = static_cast<std::ptrdiff_t>((of.skipped + column * of.rows.stride) * size);
    return {Bytes(of.rows.bytes.begin() + first, of.rows.bytes.end()), of.rows.stride};
}

proto::Geometry in_blocks(const LeanCase& of) {
    proto::Geometry geometry = of.geometry;
    geometry.tile = 64;
    return geometry;
}

std::uint32_t code_of_maximum(proto::Dtype dtype, float most, const std::uint32_t* codes) {
    if (std::isnan(most)) return dtype == proto::Dtype::fp32 ? 0x7FFFFFFFU : 0x7FFFU;
    if (most == 0) return 0;
    return *std::find_if(codes, codes + 64,
                         [&](std::uint32_t code) { return naive_value(dtype, code) == most; });
}

std::uint32_t minus_infinity_of(proto::Dtype dtype) {
    if (dtype == proto::Dtype::bf16) return 0xFF80;
    return dtype == proto::Dtype::fp16 ? 0xFC00 : 0xFF800000;
}

bool above(float a, float b) {
    return std::isnan(a) ? !std::isnan(b) : a > b;
}

// The blocks that are not -inf nor below a value, the best first, of equal ones the first.
std::vector<std::uint32_t> best_first(const std::vector<float>& bounds, const std::vector<float>& maxima,
                                      float least) {
    std::vector<std::uint32_t> blocks;
    for (std::uint32_t block = 0; block < bounds.size(); ++block) {
        if (maxima[block] != -kInfinity && !above(least, bounds[block])) blocks.push_back(block);
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return above(bounds[a], bounds[b]); });
    return blocks;
}

struct Wanted {
    std::uint32_t least;
    std::uint32_t count;
    std::uint32_t most;

    Wanted(std::uint32_t wanted, std::uint32_t spare)
        : least(wanted - wanted / 16),
          count(wanted),
          most(wanted == 0 ? 0 : wanted + std::min(spare, std::max(wanted / 8, 4U))) {}
};

// How many of the best ones may be chosen: none that is left out is as good as one that is chosen, unless so
// many are alike that it cannot be had.
std::vector<std::size_t> counts_of(const Wanted& wanted, const std::vector<std::uint32_t>& best,
                                   const std::vector<float>& bounds) {
    if (best.size() < wanted.least) return {best.size()};
    std::vector<std::size_t> counts;
    for (std::size_t count = wanted.least; count <= std::min<std::size_t>(wanted.most, best.size());
         ++count) {
        const bool apart =
            count == 0 || count == best.size() || above(bounds[best[count - 1]], bounds[best[count]]);
        if (apart) counts.push_back(count);
    }
    if (counts.empty()) counts.push_back(wanted.count);
    return counts;
}

// Of blocks, that a byte for each block takes, rounded up to 16 bytes.
std::uint32_t room_of_weights(const LeanCase& of) {
    const std::size_t block_bytes = std::size_t{64} * proto::element_bytes(of.geometry.dtype);
    std::size_t bytes = of.blocks();
    while (bytes % 16 != 0) ++bytes;
    return static_cast<std::uint32_t>((bytes + block_bytes - 1) / block_bytes);
}

bool naive_weighs_blocks(const LeanCase& of, const gpu_writer::LeanWant& want) {
    const bool asked = want.flags.has(request::Want::block_weights) &&
                       want.flags.has(request::Want::sum_at_scale) &&
                       !want.flags.has(request::Want::spread) && !want.flags.has(request::Want::whole);
    return asked && of.blocks() > 0 && 2 * room_of_weights(of) <= of.geometry.lean_blocks;
}

std::vector<float> race_bounds(const proto::RankShard& shard, const gpu_writer::LeanWant& want,
                               const std::vector<float>& maxima) {
    namespace race = proto::race;
    std::vector<float> bounds;
    for (const float most : maxima) {
        const auto block = static_cast<std::uint32_t>(shard.first_block() + bounds.size());
        const float first = race::first_arrival(race::word_of(want.key, race::kBlockStream, block));
        bounds.push_back(race::score(most, want.temperature, race::ln(first)));
    }
    return bounds;
}

bool naive_sends_racers(const gpu_writer::LeanWant& want) {
    const request::Wants others = request::Want::whole | request::Want::draw;
    return want.flags.has(request::Want::racers) && !want.flags.has_any(others) && want.temperature > 0 &&
           want.by_race > 0;
}

// What stands behind the blocks takes.
std::size_t bytes_behind(const LeanCase& of, const gpu_writer::LeanWant& want) {
    std::size_t bytes = 0;
    if (naive_weighs_blocks(of, want)) {
        while (bytes < of.blocks()) bytes += 16;
    } else if (want.flags.has(request::Want::spread) || naive_sends_racers(want)) {
        bytes = 64;
    }
    if (naive_sends_racers(want)) bytes += 128;
    return bytes;
}

bool naive_lists_entries(const gpu_writer::LeanWant& want) {
    return want.flags.has(request::Want::best_entries) && !want.flags.has(request::Want::whole);
}

std::vector<std::vector<std::uint32_t>> may_be_sent(const LeanCase& of, std::uint32_t column,
                                                    const std::vector<float>& maxima) {
    const gpu_writer::LeanWant& want = of.wants[column];
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    if (want.flags.has(request::Want::whole) || maxima.empty()) return {{}};
    std::set<std::uint32_t> always;
    const std::uint32_t end = shard.first_id + of.geometry.real_ids(of.rank);
    const auto last = static_cast<std::uint32_t>(maxima.size() - 1);
    if (shard.first_id % 64 != 0) always.insert(0);
    if (end != (shard.first_block() + shard.blocks()) * 64) always.insert(last);
    const std::size_t block_bytes = std::size_t{64} * proto::element_bytes(of.geometry.dtype);
    const std::size_t behind = (bytes_behind(of, want) + block_bytes - 1) / block_bytes;
    std::uint32_t room = of.geometry.lean_blocks - static_cast<std::uint32_t>(behind);
    const std::uint32_t for_names = want.named == 0 ? 0 : 1 + (want.named + 63U) / 64;
    room -= std::min(room, static_cast<std::uint32_t>(always.size()) + for_names);
    const std::uint32_t by_maximum =
        naive_lists_entries(want) ? 0 : std::min<std::uint32_t>(room, want.by_maximum);
    const bool sends_racers = want.temperature > 0 && !naive_sends_racers(want);
    const std::uint32_t by_race = sends_racers ? std::min<std::uint32_t>(room - by_maximum, want.by_race) : 0;
    const Wanted first(by_maximum, room - by_maximum - by_race);
    const Wanted second(by_race, room - first.most - by_race);
    const std::vector<float> bounds = want.temperature == 0 ? maxima : race_bounds(shard, want, maxima);
    const float most =
        *std::max_element(maxima.begin(), maxima.end(), [](float a, float b) { return above(b, a); });
    const float least = want.reach == kInfinity ? -kInfinity : most - want.reach;
    const std::vector<std::uint32_t> best = best_first(maxima, maxima, least);
    const std::vector<std::uint32_t> best_racers = best_first(bounds, maxima, -kInfinity);
    std::vector<std::vector<std::uint32_t>> sets;
    for (const std::size_t count : counts_of(first, best, maxima)) {
        for (const std::size_t racers : counts_of(second, best_racers, bounds)) {
            std::set<std::uint32_t> sent = always;
            sent.insert(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count));
            sent.insert(best_racers.begin(), best_racers.begin() + static_cast<std::ptrdiff_t>(racers));
            sets.emplace_back(sent.begin(), sent.end());
        }
    }
    return sets;
}

float naive_score(const gpu_writer::LeanWant& want, std::uint32_t token, float logit) {
    namespace race = proto::race;
    if (want.temperature == 0) return logit;
    return race::score(logit, want.temperature, race::ln(race::arrival(want.key, token)));
}

// All tokens above -inf, the best first, and the score above which all of them have to be told of. Nothing
// where the row has NaN or +inf.
void race_naively(const LeanCase& of, const gpu_writer::LeanWant& want,
                  const std::vector<std::uint32_t>& codes, const std::vector<float>& maxima,
                  NaiveColumn& naive) {
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    std::vector<double> values;
    values.reserve(codes.size());
    for (const std::uint32_t code : codes) values.push_back(naive_value(of.geometry.dtype, code));
    double most = -std::numeric_limits<double>::infinity();
    for (const double value : values) {
        if (std::isnan(value) || value == std::numeric_limits<double>::infinity()) return;
        most = std::max(most, value);
    }
    for (std::uint32_t i = 0; i < values.size(); ++i) {
        const auto logit = static_cast<float>(values[i]);
        const std::uint32_t token = shard.first_block() * 64 + i;
        if (logit != -kInfinity) naive.racers.push_back({token, naive_score(want, token, logit), logit, 0});
    }
    std::sort(naive.racers.begin(), naive.racers.end(), [](const auto& a, const auto& b) {
        return a.score > b.score || (a.score == b.score && a.token < b.token);
    });
    for (std::uint32_t k = 0; k < proto::kMostRacers && k < naive.racers.size(); ++k) {
        const proto::Racer& racer = naive.racers[k];
        double before = 0;
        for (std::uint32_t i = 0; i < values.size(); ++i) {
            const std::uint32_t token = shard.first_block() * 64 + i;
            if (values[i] > racer.logit || (values[i] == racer.logit && token < racer.token))
                before += std::exp((values[i] - most) * want.scale);
        }
        naive.before.push_back(before);
    }
    const auto some = std::clamp(static_cast<std::uint32_t>(maxima.size()) / 8, 32U, 512U);
    const Wanted opened(std::min<std::uint32_t>(want.by_race, some), 512);
    const std::vector<float> bounds = race_bounds(shard, want, maxima);
    const std::vector<std::uint32_t> best = best_first(bounds, maxima, -kInfinity);
    const std::size_t fewest = counts_of(opened, best, bounds).front();
    if (fewest > 0 && best.size() >= opened.least) naive.told_above = bounds[best[fewest - 1]];
    // Of more tokens that score the same than there is room for, none.
    constexpr std::size_t kRoom = 512;
    const auto& all = naive.racers;
    if (all.size() > kRoom && all[kRoom].score == all[proto::kMostRacers - 1].score)
        naive.told_above = std::max(naive.told_above, all[kRoom].score);
}

// The best score first, and then the first token that has it. Nothing where the row has NaN or +inf, or
// nothing above -inf.
std::optional<proto::race::Draw> naive_draw(const LeanCase& of, const gpu_writer::LeanWant& want,
                                            const std::vector<std::uint32_t>& codes) {
    const std::uint32_t first = of.geometry.shards[of.rank].first_block() * 64;
    proto::race::Draw draw{want.key, want.temperature, 0, -kInfinity, 0};
    std::vector<float> scores;
    for (std::uint32_t i = 0; i < codes.size(); ++i) {
        const float logit = naive_value(of.geometry.dtype, codes[i]);
        if (std::isnan(logit) || logit == kInfinity) return std::nullopt;
        scores.push_back(logit == -kInfinity ? logit : naive_score(want, first + i, logit));
        draw.score = std::max(draw.score, scores.back());
    }
    const auto winner = std::find(scores.begin(), scores.end(), draw.score);
    if (winner == scores.end() || draw.score == -kInfinity) return std::nullopt;
    draw.token = first + static_cast<std::uint32_t>(winner - scores.begin());
    return draw;
}

proto::RowSpread naive_spread(proto::Dtype dtype, const std::vector<std::uint32_t>& codes, double scale) {
    double most = -std::numeric_limits<double>::infinity();
    for (const std::uint32_t code : codes) {
        const float value = naive_value(dtype, code);
        if (std::isnan(value) || value == kInfinity) return {};
        most = std::max(most, double{value});
    }
    proto::RowSpread spread;
    for (const std::uint32_t code : codes) {
        const float value = naive_value(dtype, code);
        if (value == -kInfinity) continue;
        const double distance = value - most;
        spread.tokens += 1;
        spread.distances += distance;
        spread.squares += distance * distance;
        spread.weight += std::exp(distance * scale);
        spread.moments += std::exp(distance * scale) * distance;
    }
    return spread;
}

// All above -inf, the best first. Nothing where the row has NaN or +inf.
std::vector<proto::BestEntry> entries_best_first(const LeanCase& of,
                                                 const std::vector<std::uint32_t>& codes) {
    std::vector<proto::BestEntry> entries;
    for (std::uint32_t i = 0; i < codes.size(); ++i) {
        const float logit = naive_value(of.geometry.dtype, codes[i]);
        if (std::isnan(logit) || logit == kInfinity) return {};
        if (logit != -kInfinity)
            entries.push_back({of.geometry.shards[of.rank].first_block() * 64 + i, logit});
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
    return entries;
}

// Whatever a mask hides; of what is not the rank's, -inf.
std::vector<std::uint32_t> named_codes(const LeanCase& of, const gpu_writer::LeanWant& want,
                                       const std::vector<std::uint32_t>& codes) {
    const proto::RankShard& shard = of.geometry.shards[of.rank];
    std::vector<std::uint32_t> named;
    for (std::uint32_t i = 0; i < want.named; ++i) {
        const std::uint32_t id = of.names[want.names_line * 16U + 4 + i];
        const bool is_own = id >= shard.first_id && id < shard.first_id + of.geometry.real_ids(of.rank);
        named.push_back(is_own ? codes[id - shard.first_block() * 64] : minus_infinity_of(of.geometry.dtype));
    }
    return named;
}

// Those that the column's mask hides as -inf, unless they are NaN or +inf.
std::vector<std::uint32_t> allowed_codes(const LeanCase& of, const gpu_writer::LeanWant& want,
                                         const std::vector<std::uint32_t>& codes) {
    const proto::Dtype dtype = of.geometry.dtype;
    std::vector<std::uint32_t> allowed = codes;
    if (want.mask_row == 0) return allowed;
    const std::uint32_t* mask = of.masks.data() + (std::size_t{want.mask_row} - 1) * of.mask_words();
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t id = std::size_t{of.geometry.shards[of.rank].first_block()} * 64 + i;
        const bool allows = id < std::size_t{of.mask_words()} * 32 && (mask[id / 32] >> (id % 32) & 1U) != 0;
        if (!allows && naive_value(dtype, codes[i]) < kInfinity) allowed[i] = minus_infinity_of(dtype);
    }
    return allowed;
}

std::vector<float> maxima_of(proto::Dtype dtype, const std::vector<std::uint32_t>& codes) {
    std::vector<float> maxima(codes.size() / 64, -kInfinity);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const float value = naive_value(dtype, codes[i]);
        float& most = maxima[i / 64];
        if (std::isnan(value) || value > most) most = value;
    }
    return maxima;
}

double naive_weight(proto::Dtype dtype, const std::vector<std::uint32_t>& codes, double scale) {
    return naive_spread(dtype, codes, scale).weight;
}

}  // namespace

NaiveColumn naive_column(const LeanCase& of, std::uint32_t column) {
    const proto::Dtype dtype = of.geometry.dtype;
    const gpu_writer::LeanWant& want = of.wants[column];
    const Bytes slice = naive_slice(in_blocks(of), of.rank, 1, {}, row_of(of, column));
    NaiveColumn naive;
    naive.codes = codes_of(dtype, slice.data(), std::size_t{of.blocks()} * 64);
    const std::vector<std::uint32_t> allowed = allowed_codes(of, want, naive.codes);
    const std::vector<float> maxima = maxima_of(dtype, allowed);
    for (std::size_t block = 0; block < maxima.size(); ++block) {
        naive.maxima.push_back(code_of_maximum(dtype, maxima[block], allowed.data() + block * 64));
    }
    const bool whole = want.flags.has(request::Want::whole);
    const bool draws = !whole && want.flags.has(request::Want::draw);
    const auto draw = draws ? naive_draw(of, want, allowed) : std::nullopt;
    const bool drawn = draw.has_value();
    if (naive_sends_racers(want)) race_naively(of, want, allowed, maxima, naive);
    naive.taken = bytes_behind(of, want);
    if (naive_lists_entries(want) && !drawn) naive.entries = entries_best_first(of, allowed);
    naive.lists = !naive.entries.empty();
    naive.choices = drawn ? std::vector<std::vector<std::uint32_t>>(1) : may_be_sent(of, column, maxima);
    if (naive.lists) naive.head.flags = proto::Sent::best_entries;
    naive.names = want.named > 0 && !whole && !drawn;
    if (naive.names) naive.named = named_codes(of, want, naive.codes);
    if (whole) naive.head.flags = proto::Sent::whole_row;
    if (drawn) naive.head.flags = proto::Sent::draw_alone;
    if (naive.names) naive.head.flags.add(proto::Sent::named_values);
    if (want.mask_row != 0) naive.head.flags.add(proto::Sent::under_mask);
    const auto is_nothing = [](float most) { return most == -kInfinity; };
    if (!whole && std::all_of(maxima.begin(), maxima.end(), is_nothing))
        naive.head.flags.add(proto::Sent::nothing);
    if (!drawn && naive_weighs_blocks(of, want)) {
        naive.head.flags.add(proto::Sent::weighed_blocks);
        for (std::size_t block = 0; block < maxima.size(); ++block) {
            const auto first = allowed.begin() + static_cast<std::ptrdiff_t>(block) * 64;
            naive.weights.push_back(naive_weight(dtype, {first, first + 64}, want.scale));
        }
    }
    if (!whole && want.flags.has(request::Want::spread)) {
        naive.head.flags.add(proto::Sent::row_spread);
        naive.spread = naive_spread(dtype, allowed, want.scale);
    }
    if (draw) naive.head.draw = *draw;
    naive.head.scale = want.scale;
    if (want.flags.has(request::Want::sum_at_one)) naive.head.weight = naive_weight(dtype, allowed, 1);
    if (want.flags.has(request::Want::sum_at_scale)) {
        naive.head.weight_at_scale = naive_weight(dtype, allowed, want.scale);
    }
    return naive;
}

LaidColumn laid_column(const LeanCase& of, const Laid& laid, std::uint32_t column) {
    const proto::LeanLayout layout = proto::lean_layout_of(of.geometry, of.rank);
    const unsigned char* part = laid.part.data();
    LaidColumn found;
    std::memcpy(&found.head, part + layout.heads + column * sizeof(found.head), sizeof(found.head));
    found.maxima =
        codes_of(of.geometry.dtype, part + layout.maxima + column * layout.maxima_stride, of.blocks());
    const std::uint32_t sent = std::min(found.head.sent, of.geometry.lean_blocks);
    found.sent = codes_of(proto::Dtype::fp16, part + layout.blocks + column * layout.blocks_stride, sent);
    found.codes = codes_of(of.geometry.dtype, part + layout.elements + column * layout.elements_stride,
                           std::size_t{sent} * 64);
    if (found.head.flags.has(proto::Sent::weighed_blocks)) {
        const unsigned char* weights = part + layout.block_weights(column, of.blocks());
        found.weights.assign(weights, weights + of.blocks());
    }
    if (found.head.flags.has(proto::Sent::race_best)) {
        const std::size_t at = layout.racers(column, found.head.flags, of.blocks());
        std::memcpy(&found.racers, part + at, sizeof(found.racers));
    }
    std::size_t before = sent * layout.block_bytes;
    if (found.head.flags.has(proto::Sent::named_values)) {
        const unsigned char* values = part + layout.named_values(column, sent);
        std::memcpy(&found.names, values, sizeof(found.names));
        before += layout.bytes_of_named(found.names.count);
        if (before <= layout.elements_stride)
            found.named = codes_of(of.geometry.dtype, values + sizeof(found.names), found.names.count);
    }
    found.before_list = before;
    if (found.head.flags.has(proto::Sent::best_entries)) {
        const unsigned char* list = part + layout.best_entries(column, before);
        std::memcpy(&found.list, list, sizeof(found.list));
        found.entries.resize(std::min<std::size_t>(found.list.count, layout.room_for_entries(before, 0)));
        std::memcpy(found.entries.data(), list + sizeof(found.list),
                    found.entries.size() * sizeof(proto::BestEntry));
    }
    if (found.head.flags.has(proto::Sent::row_spread))
        std::memcpy(&found.spread, part + layout.spread(column), sizeof(found.spread));
    return found;
}

Bytes naive_slice_of(const LeanCase& of, const std::vector<Asked>& asked) {
    const Bytes all = row_of(of, 0).bytes;
    const Bytes whole = naive_slice(of.geometry, of.rank, of.columns(), {}, {all, of.rows.stride});
    Bytes slice = poisoned(of).slice;
    const std::size_t size = proto::element_bytes(of.geometry.dtype);
    const std::uint32_t tile = of.geometry.tile;
    for (const Asked& each : asked) {
        for (std::size_t place = 0; place < std::size_t{of.geometry.tiles(of.rank)} * tile; ++place) {
            const auto at = [&](std::uint32_t column, std::uint32_t columns) {
                return static_cast<std::ptrdiff_t>(((place / tile * columns + column) * tile + place % tile) *
                                                   size);
            };
            // Padding behind the last block goes with whole columns only, which ask for all bits.
            const std::size_t block = place / 64;
            if (block / 64 >= each.bitmap.size() || (each.bitmap[block / 64] >> block % 64 & 1U) == 0)
                continue;
            std::copy_n(whole.begin() + at(each.column, of.columns()), size,
                        slice.begin() + at(of.wants[each.column].place, of.places()));
        }
    }
    return slice;
}

}  // namespace croupier::testing
