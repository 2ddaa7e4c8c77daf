#include "sampler/lean_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "sampler/exp.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/slice_column.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr float kNothingBelow = -std::numeric_limits<float>::infinity();

std::uint32_t block_after(std::uint32_t id) {
    return (id + kBlock - 1) / kBlock;
}

// By proto::Sent::weighed_blocks, rounded down.
const std::array<float, 256> kLeastWeights = [] {
    std::array<float, 256> weights{};
    for (std::size_t code = 0; code < weights.size(); ++code) {
        const double weight = std::exp2(static_cast<double>(code) / proto::kWeightSteps);
        weights[code] = code == 0 ? 1.0F : std::nextafter(static_cast<float>(weight), 0.0F);
    }
    return weights;
}();

class LeanLayer {
  public:
    LeanLayer(const RowView& view, Workspace& workspace)
        : view_(view),
          workspace_(workspace),
          lean_(workspace.lean),
          bytes_(proto::element_bytes(view.dtype)),
          blocks_(block_after(view.vocab)) {}

    BlockedRow lay() {
        begin();
        each_slice(view_, [this](const SliceColumn& slice, const Slice& of) {
            find_blocks(slice, *of.lean);
            take_maxima(slice, *of.lean);
            note_block_weights(slice, *of.lean);
        });
        take_weights();
        lean_.spread = spread_.known(view_.vocab);
        lean_.spread_at = spread_.scale;
        workspace_.runs.front() = {nullptr, 0, nullptr, blocks_, 0, &lean_};
        return {view_.dtype, workspace_.runs.first(1), view_.vocab, blocks_, true, &lean_};
    }

  private:
    void begin() {
        const std::size_t words = (blocks_ + 63) / 64;
        std::fill_n(lean_.there.begin(), words, 0);
        std::fill_n(lean_.missing.begin(), words, 0);
        fill_with_nothing(view_.dtype, lean_.nothing.data(), 0);
        lean_.block_max = workspace_.block_max.first(blocks_);
        lean_.largest = -std::numeric_limits<float>::infinity();
        lean_.sound = true;
        const auto is_masked = [](const Slice& each) { return each.lean->masked; };
        lean_.masked = std::all_of(view_.slices.begin(), view_.slices.end(), is_masked);
        lean_.masked_in_part = std::any_of(view_.slices.begin(), view_.slices.end(), is_masked);
        lean_.asked_before = 0;
        lean_.weighed_at = view_.slices.front().lean->scale;
        lean_.weighed = 0;
        lean_.knows_weights = false;
        lean_.slices = view_.slices;
        lean_.vocab = view_.vocab;
        lean_.listed_above = kNothingBelow;
        lean_.has_values = lean_.lists_allowed = false;
        for (const Slice& each : view_.slices) note_single_tokens(*each.lean);
        lean_.forget_named();
    }

    // A rank that holds nothing has nothing to list.
    void note_single_tokens(const LeanColumn& lean) {
        if (!lean.holds_nothing) lean_.listed_above = std::max(lean_.listed_above, lean.best_above);
        lean_.has_values = lean_.has_values || lean.racers || !lean.best_entries.empty();
    }

    void add(std::uint32_t block, const std::byte* elements) {
        lean_.at[block] = elements;
        lean_.there[block / 64] |= bit_of(block);
    }
    // Returns whether it was there.
    bool remove(std::uint32_t block) {
        const bool was_there = lean_.is_there(block);
        lean_.there[block / 64] &= ~bit_of(block);
        return was_there;
    }
    static std::uint64_t bit_of(std::uint32_t block) { return std::uint64_t{1} << (block % 64); }

    void find_blocks(const SliceColumn& slice, const LeanColumn& lean) {
        const std::uint32_t first = slice.first_id() / kBlock;
        // The earlier ranks' part of its first block is in place by now.
        const bool joins = slice.first_id() % kBlock != 0;
        const bool others_sent = !joins || remove(first);
        find_sent(slice, lean);
        find_placed(slice, lean);
        std::uint32_t id = slice.first_id();
        if (joins) id = put_part(slice, id, others_sent);
        const std::uint32_t last = slice.end() / kBlock * kBlock;
        if (id <= last && last < slice.end()) put_part(slice, last, true);
    }

    void find_sent(const SliceColumn& slice, const LeanColumn& lean) {
        const std::uint32_t first = slice.first_id() / kBlock;
        const std::uint32_t own = block_after(slice.end()) - first;
        const auto* elements = static_cast<const std::byte*>(lean.elements);
        for (std::uint32_t i = 0; i < lean.sent; ++i) {
            const std::uint32_t block = lean.blocks[i];
            if (block < own) add(first + block, elements + std::size_t{i} * kBlock * bytes_);
        }
    }

    void find_placed(const SliceColumn& slice, const LeanColumn& lean) {
        if (lean.placed == nullptr) return;
        const std::uint32_t first = slice.first_id() / kBlock;
        const std::uint32_t end = block_after(slice.end());
        const std::size_t stride = std::size_t{view_.columns} * kBlock * bytes_;
        for (std::uint32_t word = first / 64; word <= (end - 1) / 64; ++word) {
            for (std::uint64_t bits = lean.placed[word]; bits != 0; bits &= bits - 1) {
                const std::uint32_t block = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
                if (block < first || block >= end) continue;
                add(block, slice.elements() + slice.place_of(block) * stride);
                ++lean_.asked_before;
            }
        }
    }

    // What the slice has of a block that is not all its own, from `id` on; returns where that ends. The block
    // is there if every rank's part is.
    std::uint32_t put_part(const SliceColumn& slice, std::uint32_t id, bool others_sent) {
        const std::uint32_t block = id / kBlock;
        const std::uint32_t end = std::min(slice.end(), (block + 1) * kBlock);
        if (id % kBlock == 0) begin_part();
        if (lean_.is_there(block)) {
            const std::size_t before = id % kBlock * bytes_;
            std::copy_n(lean_.at[block] + before, (end - id) * bytes_, part_ + before);
            lean_.at[block] = part_;
        }
        if (!others_sent) remove(block);
        return end;
    }

    void begin_part() {
        part_ = workspace_.tails.data() + tails_++ * kBlock * sizeof(float);
        fill_with_nothing(view_.dtype, part_, 0);
    }

    // A block that several ranks share has the largest of their parts' maxima.
    void take_maxima(const SliceColumn& slice, const LeanColumn& lean) {
        const std::uint32_t first = slice.first_id() / kBlock;
        const auto own = workspace_.block_max.subspan(first, block_after(slice.end()) - first);
        const float others = own.front();
        const Widened widened = widen_codes(view_.dtype, lean.maxima, own);
        lean_.largest = std::max(lean_.largest, widened.largest);
        lean_.sound = lean_.sound && widened.sound;
        add_weights(lean, static_cast<double>(widened.largest));
        if (slice.first_id() % kBlock != 0) own.front() = larger_or_nan(others, own.front());
    }

    void note_block_weights(const SliceColumn& slice, const LeanColumn& lean) {
        if (lean.block_weights == nullptr || !(lean.scale == lean_.weighed_at)) lean_.weighed_at = 0.0;
        const std::uint32_t first = slice.first_id() / kBlock;
        lean_.weighed_slices[lean_.weighed++] = {lean.block_weights, first, block_after(slice.end()) - first,
                                                 slice.first_id() % kBlock != 0, slice.end() % kBlock != 0};
    }

    // Of a rank whose largest entry that is. One of nothing but -inf weighs nothing.
    void add_weights(const LeanColumn& lean, double maximum) {
        if (maximum == kNothing) return;
        totals_[0].add(lean.weight, 1.0, maximum);
        totals_[1].add(lean.weight_at_scale, lean.scale, maximum);
        spread_.add(lean, maximum);
    }

    void take_weights() {
        for (std::size_t i = 0; i < totals_.size(); ++i) {
            const Total& total = totals_[i];
            const bool known = total.summed && can_be_weighed(total.maximum, total.scale);
            if (known) workspace_.weighed[i] = {total.maximum, total.scale, total.weight};
        }
    }

    // What the ranks weigh together, in units of the largest entry's weight.
    struct Total {
        double maximum = kNothing;
        double scale = 0.0;
        double weight = 0.0;
        bool summed = true;

        void add(double own, double own_scale, double own_maximum) {
            if (maximum == kNothing) scale = own_scale;
            // Written so that NaN is nothing.
            summed = summed && own > 0.0 && own < std::numeric_limits<double>::max() && own_scale > 0.0 &&
                     own_scale == scale && std::isfinite(own_maximum);
            if (!summed) return;
            const double most = std::max(maximum, own_maximum);
            weight = weight * exp_nonpositive((maximum - most) * scale) +
                     own * exp_nonpositive((own_maximum - most) * scale);
            maximum = most;
        }
    };

    // What the ranks' entries sum up to together, seen from the largest of all.
    struct Spread {
        proto::RowSpread sums;
        double maximum = kNothing;
        double scale = 0.0;
        bool summed = true;

        void add(const LeanColumn& own, double own_maximum) {
            if (maximum == kNothing) scale = own.scale;
            summed = summed && own.spread && own.spread->tokens > 0.0 && own.scale > 0.0 &&
                     own.scale == scale && std::isfinite(own_maximum);
            if (!summed) return;
            const double most = std::max(maximum, own_maximum);
            if (maximum < most) sums = seen_from(sums, most - maximum);
            sums.add(own_maximum < most ? seen_from(*own.spread, most - own_maximum) : *own.spread);
            maximum = most;
        }
        std::optional<proto::RowSpread> known(std::uint32_t most_tokens) const {
            const bool some = summed && sums.tokens > 0.0 && sums.tokens <= most_tokens;
            return some ? std::optional(sums) : std::nullopt;
        }

      private:
        proto::RowSpread seen_from(const proto::RowSpread& of, double above) const {
            return of.tokens > 0.0 ? of.from_above(above, exp_nonpositive(-above * scale)) : of;
        }
    };

    const RowView& view_;
    Workspace& workspace_;
    LeanBlocks& lean_;
    std::size_t bytes_;
    std::uint32_t blocks_;
    std::size_t tails_ = 0;
    std::byte* part_ = nullptr;  // the block that is being put together
    std::array<Total, 2> totals_;
    Spread spread_;
};

}  // namespace

// A block whose largest entry that counts is -inf has nothing to ask for: under a mask, what it hides is the
// same to a decision.
const std::byte* LeanBlocks::ask_for(std::uint32_t block) {
    const bool has_nothing = block_max[block] == -std::numeric_limits<float>::infinity();
    std::uint64_t& word = missing[block / 64];
    const std::uint64_t bit = std::uint64_t{1} << (block % 64);
    if (!has_nothing && (word & bit) == 0) {
        word |= bit;
        ++asked;
    }
    return nothing.data();
}

// Of a block that several ranks share, only the largest entry is known.
bool LeanBlocks::know_weights(double scale) {
    if (!(weighed_at > 0.0) || weighed_at != scale) return false;
    if (knows_weights) return true;
    for (const WeighedSlice& each : weighed_slices.first(weighed)) {
        if (each.blocks == 0) continue;
        const std::span<float> own = least_weight.subspan(each.first, each.blocks);
        std::transform(each.codes, each.codes + each.blocks, own.begin(),
                       [](std::uint8_t code) { return kLeastWeights[code]; });
        if (each.joins) own.front() = 1.0F;
        if (each.ends_early) own.back() = 1.0F;
    }
    knows_weights = true;
    return true;
}

void LeanBlocks::bring_together(std::span<std::byte> room, std::size_t block_bytes) {
    constexpr std::size_t kAhead = 16;
    constexpr std::size_t kLine = 64;
    const std::size_t blocks = block_max.size();
    for (std::size_t b = 0; b < blocks; ++b) {
        const auto next = static_cast<std::uint32_t>(std::min(b + kAhead, blocks - 1));
        for (std::size_t line = 0; line < block_bytes; line += kLine) __builtin_prefetch(ahead(next) + line);
        if (!is_there(static_cast<std::uint32_t>(b))) continue;
        std::byte* const to = room.data() + b * block_bytes;
        std::copy_n(at[b], block_bytes, to);
        at[b] = to;
    }
}

void LeanBlocks::forget_told() {
    std::fill(block_max.begin(), block_max.end(), 0.0F);
    masked = masked_in_part = false;
    spread.reset();
    weighed_at = 0.0;
    has_values = false;
    forget_named();
    lists_allowed = false;
    listed_above = std::numeric_limits<float>::infinity();
    slices = {};
}

std::optional<float> LeanBlocks::logit_sent(std::uint32_t token) const {
    for (const Slice& slice : slices) {
        if (token - slice.first_id >= slice.entries) continue;
        if (slice.lean->racers) {
            for (const proto::Racer& each : slice.lean->racers->all()) {
                if (each.token == token) return each.logit;
            }
        }
        // No entry of its block is listed, or all are named.
        if (has_noted || !(block_max[token / kBlock] > slice.lean->best_above)) continue;
        for (const proto::BestEntry& each : slice.lean->best_entries) {
            const float logit = each.logit;
            if (each.token == token && logit <= std::numeric_limits<float>::max()) return logit;
        }
    }
    return std::nullopt;
}

void LeanBlocks::note_listed(std::size_t lookups) {
    constexpr std::size_t kMany = 32;
    if (lookups < kMany || has_noted) return;
    each_listed(-std::numeric_limits<float>::infinity(), named_logits.size(),
                [this](std::uint32_t token, float logit) { name(token, logit); });
    has_noted = true;
}

// With several ranks, no writer has summed the other ranks' tokens before it.
std::span<const proto::Racer> LeanBlocks::racers_at(double scale) const {
    if (slices.size() != 1) return {};
    const LeanColumn& first = *slices.front().lean;
    if (first.scale != scale || !first.racers) return {};
    return first.racers->all();
}

float LeanBlocks::largest_absent() const {
    return largest_without(block_max, there);
}

LeanColumn lean_column_of(const proto::LeanHead& head, const std::byte* part, const proto::LeanLayout& layout,
                          std::uint32_t blocks, std::uint32_t column) noexcept {
    LeanColumn lean;
    lean.maxima = part + layout.maxima + column * layout.maxima_stride;
    lean.masked = head.flags.has(proto::Sent::under_mask);
    lean.holds_nothing = head.flags.has(proto::Sent::nothing);
    lean.blocks =
        reinterpret_cast<const std::uint16_t*>(part + layout.blocks + column * layout.blocks_stride);
    lean.elements = part + layout.elements + column * layout.elements_stride;
    lean.sent = head.sent;
    lean.weight = head.weight;
    lean.weight_at_scale = head.weight_at_scale;
    lean.scale = head.scale;
    if (layout.has_block_weights(head.flags, blocks)) {
        const std::byte* weights = part + layout.block_weights(column, blocks);
        lean.block_weights = reinterpret_cast<const std::uint8_t*>(weights);
    }
    if (head.flags.has(proto::Sent::row_spread)) {
        // A copy, as the head is.
        lean.spread = reinterpret_cast<const proto::LeanSpread*>(part + layout.spread(column))->of;
    }
    std::size_t before = head.sent * layout.block_bytes;
    if (head.flags.has(proto::Sent::named_values) && before < layout.elements_stride) {
        const std::byte* values = part + layout.named_values(column, head.sent);
        const auto told = *reinterpret_cast<const proto::NamedValues*>(values);
        const std::size_t end = before + layout.bytes_of_named(told.count);
        // More than have room: it is not the writer's.
        if (end > layout.elements_stride) return lean;
        lean.named_values = values + sizeof(told);
        lean.named = told.count;
        lean.named_word = told.word;
        before = end;
    }
    if (head.flags.has(proto::Sent::best_entries) && layout.room_for_entries(before, 0) > 0) {
        const std::byte* list = part + layout.best_entries(column, before);
        const auto told = *reinterpret_cast<const proto::BestEntries*>(list);
        const std::size_t room = layout.room_for_entries(before, 0);
        const auto* entries = reinterpret_cast<const proto::BestEntry*>(list + sizeof(told));
        lean.best_entries = {entries, std::min<std::size_t>(told.count, room)};
        // Where there are more than have room, or it is no number, it says nothing.
        if (told.count <= room && !std::isnan(told.above)) lean.best_above = told.above;
    }
    if (head.flags.has_any(proto::Sent::draw_alone | proto::Sent::draw_beside)) lean.draw = head.draw;
    const bool knows_rival = head.flags.has(proto::Sent::draw_beside);
    if (lean.draw && !knows_rival) lean.draw->rival = std::numeric_limits<float>::infinity();
    if (lean.draw && layout.has_racers(head.flags, blocks)) {
        const std::byte* racers = part + layout.racers(column, head.flags, blocks);
        lean.racers = *reinterpret_cast<const proto::Racers*>(racers);
    }
    return lean;
}

void take_named(const RowView& view, const Request& request, const BlockedRow& row, bool looks_up) noexcept {
    LeanBlocks& lean = *row.lean;
    const auto is_sent = [](const Slice& each) { return each.lean->named_values != nullptr; };
    if (std::none_of(view.slices.begin(), view.slices.end(), is_sent)) return;
    const bool allows = !request.allowed_ids.empty();
    const auto count = static_cast<std::uint32_t>(allows ? request.allowed_ids.size() : request.bias.size());
    const auto id_at = [&](std::uint32_t i) {
        return static_cast<std::uint32_t>(allows ? request.allowed_ids[i] : request.bias[i].token);
    };
    const std::uint32_t word = proto::word_of_ids(count, id_at);
    const auto is_this_list = [&](const Slice& each) {
        return each.entries == 0 ||
               (is_sent(each) && each.lean->named == count && each.lean->named_word == word);
    };
    lean.lists_allowed = allows && std::all_of(view.slices.begin(), view.slices.end(), is_this_list);
    if (lean.lists_allowed && !looks_up) return;
    each_slice(view, [&](const SliceColumn& slice, const Slice& of) {
        const LeanColumn& sent = *of.lean;
        if (!is_sent(of) || !is_this_list(of)) return;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t token = id_at(i);
            if (token < slice.first_id() || token >= slice.end()) continue;
            lean.name(token, row.value_in(static_cast<const std::byte*>(sent.named_values), i));
        }
    });
}

BlockedRow lay_lean(const RowView& view, Workspace& workspace) noexcept {
    return LeanLayer(view, workspace).lay();
}

}  // namespace croupier::sampler
