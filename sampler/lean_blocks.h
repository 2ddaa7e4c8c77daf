// Where the blocks of a partial row are, and which absent ones were asked for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "proto/row_spread.h"
#include "sampler/row_view.h"

namespace croupier::sampler {

struct LeanBlocks {
    std::uint32_t vocab = 0;
    std::span<const std::byte*> at;    // of those that are there; they lie anywhere
    std::span<std::uint64_t> there;    // a bit a block
    std::span<std::uint64_t> missing;  // a bit a block; all zero before the first is asked for
    std::span<std::byte> nothing;      // a block of -inf: what is read in place of an absent one
    std::span<float> block_max;        // the workspace's, of the row's blocks
    float largest = 0.0F;              // of the row, as far as the maxima are of it
    bool sound = true;                 // no entry is NaN or +inf
    // Maxima, sums and spread describe what the request's mask allows. This may hold for some ranks and not
    // for others: then the two below differ.
    bool masked = false;
    bool masked_in_part = false;
    // Of the row as the maxima are, from `largest` down; its weights are at `spread_at`.
    std::optional<proto::RowSpread> spread;
    double spread_at = 0.0;
    // What each block weighs at least at `weighed_at`, in units of its largest entry's weight: one or more.
    // Filled by know_weights(), which few decisions need.
    std::span<float> least_weight;
    struct WeighedSlice {
        const std::uint8_t* codes;
        std::uint32_t first;
        std::uint32_t blocks;
        bool joins;  // its first block is other slices' too
        bool ends_early;
    };
    std::span<WeighedSlice> weighed_slices;  // room for all, of which so many are weighed
    std::size_t weighed = 0;
    double weighed_at = 0.0;  // 0: it is not known
    bool knows_weights = false;
    std::span<const Slice> slices;   // the view's
    bool has_values = false;         // of single tokens: racers, the best entries, those that are named
    std::span<std::uint64_t> named;  // a bit a token: its logit is in `named_logits`; all zero if none has
    std::span<float> named_logits;
    bool has_named = false;
    bool has_noted = false;      // all that are listed are named
    bool lists_allowed = false;  // every writer sent the logits of the ids that the request allows alone
    // All entries of the row above it are listed, as the maxima are of them; +inf: none is.
    float listed_above = std::numeric_limits<float>::infinity();
    std::uint32_t asked = 0;         // how many are missing
    std::uint32_t asked_before = 0;  // how many are there because an earlier try of the decision asked

    // Whether maxima and sums are those of the row under this mask.
    bool knows_under(std::span<const std::uint32_t> mask) const { return masked == !mask.empty(); }

    bool is_there(std::uint32_t block) const { return (there[block / 64] >> (block % 64) & 1U) != 0; }

    // To be read.
    const std::byte* block(std::uint32_t b) { return is_there(b) ? at[b] : ask_for(b); }
    // Only to be fetched into the cache.
    const std::byte* ahead(std::uint32_t b) const { return is_there(b) ? at[b] : nothing.data(); }

    // A search that cannot tell how many blocks it needs before it has read them asks for this many at a
    // time, because a further try costs more than a few blocks. It asks for more the more often it has asked,
    // so that a row of which it needs everything is there after few tries.
    std::uint32_t most_asked_at_once() const { return std::max(32U, 2 * asked_before); }

    // False: not at that scale.
    bool know_weights(double scale);

    void forget_named() {
        if (has_named) std::fill(named.begin(), named.end(), 0);
        has_named = has_noted = false;
    }
    // Calls visit(token, elements, entry) for each of these ids of the slice, where its logit stands.
    template <class Visit>
    static void each_allowed(const Slice& slice, std::span<const std::int32_t> allowed, Visit visit) {
        const auto* elements = static_cast<const std::byte*>(slice.lean->named_values);
        for (std::uint32_t i = 0; i < allowed.size(); ++i) {
            const auto token = static_cast<std::uint32_t>(allowed[i]);
            if (token - slice.first_id < slice.entries) visit(token, elements, i);
        }
    }
    void name(std::uint32_t token, float logit) {
        named[token / 64] |= std::uint64_t{1} << (token % 64);
        named_logits[token] = logit;
        has_named = has_values = true;
    }
    // Where so many tokens are looked up that to search the lists for each would take longer.
    void note_listed(std::size_t lookups);
    bool is_named(std::uint32_t token) const {
        return has_named && (named[token / 64] >> (token % 64) & 1U) != 0;
    }
    // Of a token whose block is absent, if it was sent by itself.
    std::optional<float> logit_sent(std::uint32_t token) const;
    bool has_list() const { return listed_above < std::numeric_limits<float>::infinity(); }
    // The least value from which on every entry is listed, and whether it is from this one on.
    float listed_from() const { return value_after(listed_above); }
    bool lists_from(float floor) const { return floor > listed_above; }
    // Calls visit(token, logit) for each of them, in no order; at most `room` times.
    template <class Visit>
    void each_listed(float floor, std::size_t room, Visit visit) const;
    // All of them, if what stands before some was summed at this scale, of all the row.
    std::span<const proto::Racer> racers_at(double scale) const;

    // Copies all blocks that are there into one piece of memory. In a slice each block lies on a page of its
    // own, so that every pass over the row would look up a page for each block.
    void bring_together(std::span<std::byte> room, std::size_t block_bytes);

    // Forgets all that is known of the row but the blocks that are there: every other one may be asked for.
    void forget_told();

    // Forgets which blocks were asked for.
    void forget_asked() {
        std::fill(missing.begin(), missing.end(), 0);
        asked = 0;
    }

    // The least value from which on every entry is there; -inf: all are.
    float there_from() const { return value_after(std::min(largest_absent(), listed_above)); }

  private:
    static float value_after(float value) {
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        return value == -kInfinity ? value : std::nextafter(value, kInfinity);
    }
    float largest_absent() const;
    const std::byte* ask_for(std::uint32_t block);
};

// The tokens and logits are another process's: what is no entry of its rank is passed over.
template <class Visit>
void LeanBlocks::each_listed(float floor, std::size_t room, Visit visit) const {
    for (const Slice& slice : slices) {
        for (const proto::BestEntry& each : slice.lean->best_entries) {
            // A copy.
            const proto::BestEntry entry = each;
            const bool counts = entry.logit >= floor && entry.logit <= std::numeric_limits<float>::max();
            if (!counts || entry.token - slice.first_id >= slice.entries || entry.token >= vocab) continue;
            if (room == 0) return;
            --room;
            visit(entry.token, entry.logit);
        }
    }
}

}  // namespace croupier::sampler
