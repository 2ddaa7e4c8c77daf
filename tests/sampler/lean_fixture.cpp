#include "lean_fixture.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "proto/lean_part.h"
#include "request/draw.h"
#include "sampler/blocked_row.h"
#include "sampler/decide.h"
#include "sampler/race_key.h"
#include "testing/agreement.h"

namespace croupier::sampler::test {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

RowShape in_blocks(RowShape shape) {
    shape.tile = kBlock;
    shape.summarised = true;
    return shape;
}

// The largest of the values, NaN where one is.
float largest(std::span<const float> values) {
    float most = kNothing;
    for (const float value : values) {
        if (std::isnan(value)) return value;
        most = std::max(most, value);
    }
    return most;
}

bool is_masked(const SentParts& parts, std::size_t rank) {
    return !parts.mask.empty() && !(parts.masks_every_second && rank % 2 == 1);
}

}  // namespace

std::vector<std::uint32_t> named_ids(const Request& request) {
    std::vector<std::uint32_t> ids;
    for (const std::int32_t each : request.allowed_ids) ids.push_back(static_cast<std::uint32_t>(each));
    if (!ids.empty()) return ids;
    for (const proto::TokenBias& each : request.bias) ids.push_back(static_cast<std::uint32_t>(each.token));
    return ids;
}

DrawnBy drawn_by(const Request& request) {
    return {race_key(*request.params, request), request::race_temperature(*request.params)};
}

LeanRow::LeanRow(const std::vector<float>& logits, RowShape shape, std::uint64_t order_seed,
                 const SentParts& parts)
    : shape_(in_blocks(std::move(shape))),
      whole_(logits, shape_, order_seed),
      generator_(order_seed),
      bytes_(proto::element_bytes(shape_.dtype)),
      maxima_((logits.size() + kBlock - 1) / kBlock),
      placed_((maxima_.size() + 63) / 64) {
    const std::vector<float> best = allowed_of(logits, parts, 0);
    for (std::size_t b = 0; b < maxima_.size(); ++b) {
        maxima_[b] = largest(
            std::span(best).subspan(b * kBlock, std::min<std::size_t>(kBlock, best.size() - b * kBlock)));
    }
    for (Slice slice : whole_.view().slices) {
        ranks_.push_back(rank_of(slice, allowed_of(logits, parts, ranks_.size()), parts));
        LeanColumn& told = ranks_.back()->column;
        told.masked = is_masked(parts, ranks_.size() - 1);
        told.holds_nothing = ranks_.back()->holds_nothing;
        slice.elements = ranks_.back()->elements.data();
        slice.summaries = {};
        slice.lean = &ranks_.back()->column;
        slices_.push_back(slice);
    }
}

std::vector<float> LeanRow::allowed_of(const std::vector<float>& logits, const SentParts& parts,
                                       std::size_t rank) const {
    std::vector<float> allowed = logits;
    if (!is_masked(parts, rank)) return allowed;
    for (std::size_t id = 0; id < allowed.size(); ++id) {
        const bool hidden = (parts.mask[id / 32] >> (id % 32) & 1U) == 0;
        if (hidden && std::isfinite(allowed[id])) allowed[id] = kNothing;
    }
    return allowed;
}

std::unique_ptr<LeanRow::Rank> LeanRow::rank_of(const Slice& slice, const std::vector<float>& logits,
                                                const SentParts& parts) {
    auto rank = std::make_unique<Rank>();
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    const std::uint32_t end = std::min(slice.first_id + slice.entries, vocab);
    rank->first_block = slice.first_id / kBlock;
    rank->blocks = end > slice.first_id ? (end - 1) / kBlock - rank->first_block + 1 : 0;
    const std::uint32_t all =
        slice.entries == 0 ? 0 : (slice.first_id + slice.entries - 1) / kBlock - rank->first_block + 1;
    // What an empty slice has is never looked at, but is somewhere.
    rank->elements.resize(std::max<std::size_t>(all, 1) * shape_.columns * kBlock * bytes_);
    poison(rank->elements);
    give_maxima(*rank, slice, logits);
    send(*rank, slice, parts);
    rank->column.placed = placed_.data();
    if (parts.block_weights) give_block_weights(*rank, slice, logits, parts);
    if (parts.sums) give_sums(*rank, slice, logits, parts);
    if (parts.spread) give_spread(*rank, slice, logits, parts);
    if (parts.drawn_by) give_draw(*rank, slice, logits, parts);
    if (!parts.ids.empty()) give_named(*rank, slice, parts);
    if (parts.listed > 0) give_list(*rank, slice, logits, parts);
    return rank;
}

// Large numbers, which would win, or NaN.
void LeanRow::poison(std::vector<std::byte>& elements) {
    const std::uint32_t large = shape_.dtype == proto::Dtype::fp16   ? 0x7BFFU
                                : shape_.dtype == proto::Dtype::bf16 ? 0x7F00U
                                                                     : 0x7F000000U;
    for (std::size_t at = 0; at < elements.size(); at += kBlock * bytes_) {
        const std::uint32_t code = generator_() % 4 == 0 ? ~0U : large;
        for (std::size_t i = 0; i < kBlock; ++i) std::memcpy(&elements[at + i * bytes_], &code, bytes_);
    }
}

std::size_t LeanRow::offset_of(const Slice& slice, std::uint32_t block) const {
    const std::size_t place = slice.places == nullptr ? block : slice.places[block];
    return (place * shape_.columns + shape_.column) * kBlock * bytes_;
}

// Counted from the slice's first one.
const std::byte* LeanRow::truth(const Slice& slice, std::uint32_t block) const {
    return static_cast<const std::byte*>(slice.elements) + offset_of(slice, block);
}

void LeanRow::give_maxima(Rank& rank, const Slice& slice, const std::vector<float>& logits) const {
    rank.maxima.resize((std::size_t{rank.blocks} + 1) * bytes_, std::byte{0xFF});
    for (std::uint32_t b = 0; b < rank.blocks; ++b) {
        std::uint32_t best = negative_infinity_code(shape_.dtype);
        for (std::uint32_t entry = 0; entry < kBlock; ++entry) {
            const std::uint32_t id = (rank.first_block + b) * kBlock + entry;
            if (id < slice.first_id || id >= slice.first_id + slice.entries || id >= logits.size()) continue;
            if (logits[id] == kNothing) continue;
            std::uint32_t code = 0;
            std::memcpy(&code, truth(slice, b) + entry * bytes_, bytes_);
            const float value = value_of_code(shape_.dtype, code);
            const float most = value_of_code(shape_.dtype, best);
            if (!std::isnan(most) && (std::isnan(value) || value > most)) best = code;
        }
        std::memcpy(&rank.maxima[b * bytes_], &best, bytes_);
    }
    rank.column.maxima = rank.maxima.data();
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    const std::size_t own = end > slice.first_id ? end - slice.first_id : 0;
    rank.holds_nothing = own == 0 || largest(std::span(logits).subspan(slice.first_id, own)) == kNothing;
}

std::vector<std::uint32_t> LeanRow::chosen(const Rank& rank, const SentParts& parts) {
    std::vector<std::uint32_t> own(rank.blocks);
    std::iota(own.begin(), own.end(), 0U);
    if (parts.all) return own;
    std::shuffle(own.begin(), own.end(), generator_);
    own.resize(std::min<std::size_t>(own.size(), parts.random));
    std::vector<std::uint32_t> best(maxima_.size());
    std::iota(best.begin(), best.end(), 0U);
    std::stable_sort(best.begin(), best.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return maxima_[a] > maxima_[b]; });
    best.resize(std::min<std::size_t>(best.size(), parts.best));
    best.insert(best.end(), parts.named.begin(), parts.named.end());
    for (const std::uint32_t block : best) {
        if (block - rank.first_block < rank.blocks) own.push_back(block - rank.first_block);
    }
    return own;
}

void LeanRow::send(Rank& rank, const Slice& slice, const SentParts& parts) {
    const std::vector<std::uint32_t> own = chosen(rank, parts);
    rank.sent = {static_cast<std::uint16_t>(rank.blocks), 0xFFFF};
    for (const std::uint32_t block : own) rank.sent.push_back(static_cast<std::uint16_t>(block));
    rank.sent_elements.resize(rank.sent.size() * kBlock * bytes_);
    poison(rank.sent_elements);
    for (std::size_t i = 0; i < own.size(); ++i) {
        std::memcpy(&rank.sent_elements[(i + 2) * kBlock * bytes_], truth(slice, own[i]), kBlock * bytes_);
    }
    rank.column.blocks = rank.sent.data();
    rank.column.elements = rank.sent_elements.data();
    rank.column.sent = static_cast<std::uint32_t>(rank.sent.size());
}

void LeanRow::give_sums(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                        const SentParts& parts) const {
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    if (end <= slice.first_id) return;
    const auto own = std::span(logits).subspan(slice.first_id, end - slice.first_id);
    const auto maximum = static_cast<double>(largest(own));
    if (!std::isfinite(maximum)) return;
    rank.column.scale = parts.scale;
    for (const float value : own) {
        const double below = static_cast<double>(value) - maximum;
        rank.column.weight += std::exp(below) * (1.0 + parts.error);
        rank.column.weight_at_scale += std::exp(below * parts.scale) * (1.0 + parts.error);
    }
}

void LeanRow::give_spread(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                          const SentParts& parts) const {
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    rank.column.scale = parts.scale;
    rank.column.spread.emplace();
    if (end <= slice.first_id) return;
    const auto own = std::span(logits).subspan(slice.first_id, end - slice.first_id);
    const auto maximum = static_cast<double>(largest(own));
    if (!std::isfinite(maximum)) return;
    proto::RowSpread& spread = *rank.column.spread;
    for (const float value : own) {
        if (value == kNothing) continue;
        const double below = static_cast<double>(value) - maximum;
        const double weight = std::exp(below * parts.scale);
        spread.add({1.0, below, below * below, weight, weight * below});
    }
    for (double* sum : {&spread.distances, &spread.squares, &spread.weight, &spread.moments})
        *sum *= 1.0 + parts.error;
}

// Of the rank's own entries, seldom as much as they weigh: by up to two steps less.
void LeanRow::give_block_weights(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                                 const SentParts& parts) {
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    rank.column.scale = parts.scale;
    rank.weights.assign(rank.blocks, 0);
    rank.column.block_weights = rank.weights.data();
    for (std::size_t b = 0; b < rank.weights.size(); ++b) {
        const std::size_t first = std::max<std::size_t>((rank.first_block + b) * kBlock, slice.first_id);
        const std::size_t behind = std::min<std::size_t>((rank.first_block + b + 1) * kBlock, end);
        if (first >= behind) continue;
        const auto own = std::span(logits).subspan(first, behind - first);
        const auto most = static_cast<double>(largest(own));
        if (!std::isfinite(most)) continue;
        double weight = 0.0;
        for (const float value : own) weight += std::exp((static_cast<double>(value) - most) * parts.scale);
        const double steps = std::log2(weight * (1.0 - 1e-9)) * proto::kWeightSteps;
        rank.weights[b] =
            static_cast<std::uint8_t>(std::max(steps - static_cast<double>(generator_() % 3), 0.0));
    }
}

// The best score first, and then the first id that has it.
void LeanRow::give_draw(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                        const SentParts& parts) {
    namespace race = proto::race;
    const DrawnBy& by = *parts.drawn_by;
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    if (end <= slice.first_id) return;
    const auto own = std::span(logits).subspan(slice.first_id, end - slice.first_id);
    if (!std::isfinite(largest(own))) return;
    std::vector<proto::Racer> all;
    for (auto id = slice.first_id; id < end; ++id) {
        if (logits[id] == kNothing) continue;
        const float score = by.temperature == 0.0F ? logits[id]
                                                   : race::score(logits[id], by.temperature,
                                                                 race::ln(race::arrival(by.key, id)));
        all.push_back({id, score, logits[id], 0.0F});
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    race::Draw draw{by.key, by.temperature, all[0].token, all[0].score, kNothing};
    if (all.size() > 1) draw.rival = all[1].score;
    rank.column.draw = draw;
    if (parts.racers > 0 && by.temperature > 0.0F) give_racers(rank, all, own, slice.first_id, parts);
}

// Of what is not the rank's, poison.
void LeanRow::give_named(Rank& rank, const Slice& slice, const SentParts& parts) {
    rank.named.resize((parts.ids.size() + kBlock) / kBlock * kBlock * bytes_);
    poison(rank.named);
    for (std::size_t i = 0; i < parts.ids.size(); ++i) {
        const std::uint32_t id = parts.ids[i];
        if (id < slice.first_id || id >= slice.first_id + slice.entries) continue;
        const std::byte* from = truth(slice, id / kBlock - rank.first_block) + id % kBlock * bytes_;
        std::memcpy(&rank.named[i * bytes_], from, bytes_);
    }
    rank.column.named_values = rank.named.data();
    rank.column.named = static_cast<std::uint32_t>(parts.ids.size());
    rank.column.named_word =
        proto::word_of_ids(rank.column.named, [&](std::uint32_t i) { return parts.ids[i]; });
}

// In no order, among some that are none of the rank's entries or no numbers.
void LeanRow::give_list(Rank& rank, const Slice& slice, const std::vector<float>& logits,
                        const SentParts& parts) {
    const std::size_t end = std::min<std::size_t>(slice.first_id + slice.entries, logits.size());
    if (end <= slice.first_id) return;
    if (!std::isfinite(largest(std::span(logits).subspan(slice.first_id, end - slice.first_id)))) return;
    std::vector<proto::BestEntry> all;
    for (auto id = slice.first_id; id < end; ++id) {
        if (logits[id] != kNothing) all.push_back({id, logits[id]});
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
    std::size_t count = std::min<std::size_t>(parts.listed, all.size());
    while (count < all.size() && all[count].logit == all[count - 1].logit) ++count;
    rank.column.best_above = kNothing;
    if (count < all.size()) rank.column.best_above = all[count].logit;
    all.resize(count);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    all.push_back({slice.first_id + slice.entries, 1e30F});
    all.push_back({slice.first_id - 1, 1e30F});
    all.push_back({slice.first_id, kInfinity});
    all.push_back({slice.first_id, std::numeric_limits<float>::quiet_NaN()});
    std::shuffle(all.begin(), all.end(), generator_);
    rank.listed = std::move(all);
    rank.column.best_entries = rank.listed;
}

// All that are better than the others' bound, which is seldom the best of the others' score.
void LeanRow::give_racers(Rank& rank, std::span<const proto::Racer> all, std::span<const float> own,
                          std::uint32_t first_id, const SentParts& parts) {
    proto::Racers& racers = rank.column.racers.emplace();
    racers.count = std::min<std::uint32_t>(parts.racers, static_cast<std::uint32_t>(all.size()));
    std::copy_n(all.begin(), racers.count, racers.best);
    racers.rival = kNothing;
    if (racers.count < all.size()) racers.rival = all[racers.count].score;
    if (generator_() % 2 == 0)
        racers.rival = std::max(racers.rival, std::nextafter(racers.best[racers.count - 1].score, kNothing));
    rank.column.scale = parts.scale;
    const auto most = static_cast<double>(largest(own));
    for (std::uint32_t i = 0; i < racers.count; ++i) {
        proto::Racer& racer = racers.best[i];
        racer.before = std::numeric_limits<float>::quiet_NaN();
        if (i >= parts.summed_before) continue;
        double before = 0.0;
        for (std::uint32_t other = 0; other < own.size(); ++other) {
            const bool equal = own[other] == racer.logit && first_id + other < racer.token;
            if (own[other] > racer.logit || equal)
                before += std::exp((static_cast<double>(own[other]) - most) * parts.scale);
        }
        racer.before = static_cast<float>(before * (1.0 + parts.error));
    }
}

RowView LeanRow::view() const {
    RowView view = whole_.view();
    view.slices = slices_;
    return view;
}

void LeanRow::grant(std::span<const std::uint64_t> missing) {
    const auto slices = whole_.view().slices;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = *ranks_[r];
        for (std::uint32_t b = 0; b < rank.blocks; ++b) {
            const std::uint32_t block = rank.first_block + b;
            if ((missing[block / 64] >> (block % 64) & 1U) == 0) continue;
            std::memcpy(&rank.elements[offset_of(slices[r], b)], truth(slices[r], b), kBlock * bytes_);
        }
    }
    for (std::size_t word = 0; word < placed_.size(); ++word) placed_[word] |= missing[word];
}

bool LeanRow::is_there(std::uint32_t block) const {
    if ((placed_[block / 64] >> (block % 64) & 1U) != 0) return true;
    return std::all_of(ranks_.begin(), ranks_.end(), [block](const std::unique_ptr<Rank>& rank) {
        const std::uint32_t own = block - rank->first_block;
        const LeanColumn& told = rank->column;
        return own >= rank->blocks || std::count(told.blocks, told.blocks + told.sent, own) > 0;
    });
}

LeanDecision decide_lean(LeanRow& row, const Request& request, Workspace& workspace,
                         const std::function<void()>& before_retry) {
    SequenceState state(workspace.vocab,
                        static_cast<std::uint32_t>(request.prompt.size() + request.output.size()) + 1);
    state.begin(*request.params, request.dry_breakers);
    LeanDecision made;
    for (;;) {
        const proto::Decision decision = decide(row.view(), request, state, workspace);
        ++made.tries;
        const auto missing = workspace.answer().missing;
        if (missing.empty()) {
            made.outcome = outcome_of(decision, workspace.answer());
            return made;
        }
        REQUIRE(made.tries < kMostTries);
        REQUIRE(decision.error == proto::DecisionError::none);
        REQUIRE(decision.token == -1);
        std::uint32_t asked = 0;
        for (std::uint32_t b = 0; b < missing.size() * 64; ++b) {
            if ((missing[b / 64] >> (b % 64) & 1U) == 0) continue;
            REQUIRE(b < row.blocks());
            REQUIRE_FALSE(row.is_there(b));
            ++asked;
        }
        REQUIRE(asked > 0);
        made.asked += asked;
        row.grant(missing);
        if (before_retry) before_retry();
    }
}

}  // namespace croupier::sampler::test
