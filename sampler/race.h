// The race among the tokens that may win (docs/semantics.md): blocks are opened in the order of their bounds,
// until no bound beats the best score found.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "proto/racers.h"
#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/canonical_order.h"
#include "sampler/lean_draw.h"
#include "sampler/race_arrivals.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

inline bool runs_anywhere(const Candidate& /*candidate*/) {
    return true;
}

class Race {
  public:
    // `on`: all adjustments of the request. `standing`: the race with this key as the row stands, if it is
    // known. Reads the block maxima of the workspace when it is run.
    Race(const BlockedRow& row, const Adjuster& adjust, Adjustments on, const proto::race::Key& key,
         const PreparedRace& prepared, const std::optional<StandingRace>& standing, Workspace& workspace)
        : row_(row),
          adjust_(adjust),
          on_(on),
          changes_(!adjust.changes_nothing(on)),
          key_(key),
          standing_(standing),
          workspace_(workspace) {
        if (prepared.key == key && prepared.ln_first.size() == row.blocks) ln_first_ = prepared.ln_first;
    }

    // The winner, if it is certain to be among the racers that stand best. Nothing if the race has to be run.
    template <class Eligible>
    std::optional<Candidate> foreseen(double temperature, Eligible eligible) {
        begin_among(temperature);
        if (!foresees()) return std::nullopt;
        const proto::Racers& standing = standing_->racers;
        for (const proto::Racer& each : standing.all()) {
            // Adjustments that only lower tokens leave the others with at most this score.
            if (found_ && each.score < score_) break;
            const auto raw = logit_of(each);
            if (!raw) return std::nullopt;
            const double value = changes_ ? adjust_(each.token, *raw, on_) : static_cast<double>(*raw);
            const bool stands = value == static_cast<double>(*raw);
            const float score = stands ? each.score : score_of(each.token, value);
            const bool leads = score > standing.rival || (stands && &each == standing.best);
            if (leads) offer({value, each.token}, score, eligible);
        }
        const auto all = lifted();
        for (std::size_t begin = 0; begin < all.size(); begin += kMostEntered) {
            const auto some = all.subspan(begin, std::min(kMostEntered, all.size() - begin));
            score_each(some);
            for (std::size_t i = 0; i < some.size(); ++i) {
                if (found_ || scores_[i] > standing.rival) offer(some[i], scores_[i], eligible);
            }
        }
        return found_ ? std::optional(best_) : std::nullopt;
    }

    // Nothing if no eligible token is above -inf. eligible(candidate) is called for one token at a time,
    // seldom for one that does not win; it may be true only within `values`.
    template <class Eligible>
    std::optional<Candidate> winner(double temperature, const BoundedValues& values, Eligible eligible) {
        // With a margin, the scores of the others have to be seen.
        const auto ahead = margin_ > 0.0F ? std::nullopt : foreseen(temperature, eligible);
        if (ahead) return ahead;
        begin(temperature);
        // What penalties raise may stand far above the row, of which few blocks have to be opened then.
        const bool lifts_first = !adjust_.lowers_only(on_);
        if (lifts_first) offer_lifted(eligible);
        run_blocks(
            workspace_.block_max.first(row_.blocks), values,
            [&](std::uint32_t block) { open(block, eligible); }, [&] { settle(eligible); });
        if (!lifts_first) offer_lifted(eligible);
        ask_for_unknown();
        return found_ ? std::optional(best_) : std::nullopt;
    }

    // As winner(), if no other token comes within `margin` of its score. Nothing if one does.
    template <class Eligible>
    std::optional<Candidate> clear_winner(double temperature, float margin, const BoundedValues& values,
                                          Eligible eligible) {
        margin_ = margin;
        rival_ = proto::race::constants::kLeastScore;
        const auto best = winner(temperature, values, eligible);
        margin_ = 0.0F;
        return best && rival_ < score_ - margin ? best : std::nullopt;
    }

    // The same at a temperature of 1 where each token runs with replace(value) in place of its value: no
    // token of a block with more than the block's entry of `most`.
    template <class Eligible, class Replace>
    std::optional<Candidate> winner_replaced(std::span<const float> most, Eligible eligible,
                                             Replace replace) {
        begin(1.0);
        run_blocks(
            most, kAllValues,
            [&](std::uint32_t block) { open_replaced(block, most[block], eligible, replace); }, [] {});
        for (const Candidate& each : lifted()) {
            const double logit = replace(each.value);
            if (may_win(each.token, logit)) offer(each, score_of(each.token, logit), eligible);
        }
        return found_ ? std::optional(best_) : std::nullopt;
    }

    // The same among candidates, whatever the row holds.
    Candidate winner_among(double temperature, std::span<const Candidate> candidates);
    // As clear_winner().
    std::optional<Candidate> clear_winner_among(double temperature, float margin,
                                                std::span<const Candidate> candidates);

  private:
    bool foresees() const;
    std::optional<float> logit_of(const proto::Racer& racer) const;
    void begin_among(double temperature);
    void begin(double temperature);
    std::span<const Candidate> lifted();
    void ask_for_unknown();
    std::uint32_t best_block(std::span<const float> bounds, float most) const;
    std::span<std::uint32_t> list_waiting(std::span<const float> bounds) const;
    static std::size_t set_best_apart(std::span<std::uint32_t> waiting, std::span<const float> bounds);
    std::span<std::uint32_t> still_waiting(std::span<std::uint32_t> waiting,
                                           std::span<const float> bounds) const;
    static void order_by_bound(std::span<std::uint32_t> waiting, std::span<const float> bounds);
    static std::uint32_t take_best(std::span<std::uint32_t>& waiting, std::span<const float> bounds);
    bool may_win(std::uint32_t token, double logit) const;
    float score_of(std::uint32_t token, double logit) const;
    // Into scores_, of kMostEntered at most.
    void score_each(std::span<const Candidate> some);

    // `settle_all`: opened blocks may have members whose scores are not known yet.
    template <class Open, class Settle>
    void run_blocks(std::span<const float> maxima, const BoundedValues& values, Open open_one,
                    Settle settle_all) {
        const std::span<float> bounds = workspace_.race_bounds.first(row_.blocks);
        const float most = bound_blocks(maxima, ln_first_, temperature_, values, bounds);
        if (most < proto::race::constants::kLeastScore) return;
        const std::uint32_t asked_before = row_.asked();
        open_one(best_block(bounds, most));
        settle_all();
        std::span<std::uint32_t> waiting = list_waiting(bounds);
        const auto run = [&](std::span<std::uint32_t> some) {
            order_by_bound(some, bounds);
            // An absent block counts as empty, so that the others show which blocks are needed beside it.
            while (!some.empty() && !row_.asked_enough(asked_before)) {
                const std::uint32_t block = take_best(some, bounds);
                // Blocks that the best score found so far rules out should not be asked for.
                if (!row_.is_there(block)) settle_all();
                if (bounds[block] < score_ - margin_) break;
                open_one(block);
            }
            settle_all();
        };
        if (waiting.size() > kFewWaiting) {
            const std::size_t best = set_best_apart(waiting, bounds);
            run(waiting.last(best));
            waiting = still_waiting(waiting.first(waiting.size() - best), bounds);
        }
        run(waiting);
    }

    // Few of a block's members could win even if each were the first to arrive: only those run, together with
    // other blocks' ones. Until they have, the score to beat stays a little lower than it could be.
    template <class Eligible>
    void open(std::uint32_t block, const Eligible& eligible) {
        const std::byte* elements = row_.block(block);
        ++workspace_.answer_space.blocks_read;
        const std::uint64_t reached = reach_members(row_.dtype, elements, ln_first_[block], temperature_,
                                                    score_ - margin_, opened_.values);
        if (std::popcount(reached) > kFewMembers) return open_all(block, elements, eligible);
        each_member(block, reached, [&](const Candidate& candidate, std::uint32_t /*member*/) {
            if (candidate.value == kNothing || !may_win(candidate.token, candidate.value)) return;
            enter(candidate);
        });
        if (entered_ >= kSettledAtOnce) settle(eligible);
    }

    // The adjusted members of the block that are reached: of the values that were opened.
    template <class Visit>
    void each_member(std::uint32_t block, std::uint64_t reached, Visit visit) {
        for (; reached != 0; reached &= reached - 1) {
            const auto member = static_cast<std::uint32_t>(std::countr_zero(reached));
            const std::uint32_t token = block * kBlock + member;
            const float raw = opened_.values[member];
            // Padding too: nothing is known of its ids.
            if (static_cast<double>(raw) == kNothing) continue;
            visit({changes_ ? adjust_(token, raw, on_) : static_cast<double>(raw), token}, member);
        }
    }

    void enter(const Candidate& candidate) {
        tokens_[entered_] = candidate.token;
        values_[entered_++] = candidate.value;
    }

    // A vector's worth of hashes at a time.
    template <class Eligible>
    void settle(const Eligible& eligible) {
        if (entered_ == 0) return;
        make_arrivals(key_, std::span(tokens_).first(entered_), ln_arrivals_);
        for (std::size_t i = 0; i < entered_; ++i) {
            const float logit = proto::race::entered(values_[i]);
            offer({values_[i], tokens_[i]}, proto::race::score(logit, temperature_, ln_arrivals_[i]),
                  eligible);
        }
        entered_ = 0;
    }

    template <class Eligible>
    void open_all(std::uint32_t block, const std::byte* elements, const Eligible& eligible) {
        const std::uint64_t reached =
            open_block(row_.dtype, elements, key_, block, temperature_, score_ - margin_, opened_);
        each_member(block, reached, [&](const Candidate& candidate, std::uint32_t member) {
            const bool as_it_stands = candidate.value == static_cast<double>(opened_.values[member]);
            const float score = as_it_stands ? opened_.scores[member]
                                             : proto::race::score(proto::race::entered(candidate.value),
                                                                  temperature_, opened_.ln_arrivals[member]);
            offer(candidate, score, eligible);
        });
    }

    template <class Eligible, class Replace>
    void open_replaced(std::uint32_t block, float most, const Eligible& eligible, const Replace& replace) {
        const float all = proto::race::constants::kLeastScore;
        (void)open_block(row_.dtype, row_.block(block), key_, block, temperature_, all, opened_);
        ++workspace_.answer_space.blocks_read;
        for (std::uint32_t member = 0; member < kBlock; ++member) {
            const float raw = opened_.values[member];
            const float ln_arrival = opened_.ln_arrivals[member];
            if (static_cast<double>(raw) == kNothing) continue;
            if (found_ && proto::race::score(most, temperature_, ln_arrival) < score_) continue;
            const std::uint32_t token = block * kBlock + member;
            const double value = changes_ ? adjust_(token, raw, on_) : static_cast<double>(raw);
            if (value == kNothing) continue;
            const float logit = proto::race::entered(replace(value));
            offer({value, token}, proto::race::score(logit, temperature_, ln_arrival), eligible);
        }
    }

    template <class Eligible>
    void offer_lifted(const Eligible& eligible) {
        for (const Candidate& each : lifted()) {
            if (may_win(each.token, each.value)) offer(each, score_of(each.token, each.value), eligible);
        }
    }

    template <class Eligible>
    void offer(const Candidate& candidate, float score, const Eligible& eligible) {
        ++workspace_.answer_space.candidates;
        const bool better = !found_ || score > score_ || (score == score_ && candidate.token < best_.token);
        if (!better) {
            // The winner may be offered twice.
            if (candidate.token != best_.token) rival_ = std::max(rival_, score);
            return;
        }
        if (candidate.value == kNothing || !eligible(candidate)) return;
        if (found_) rival_ = score_;
        best_ = candidate;
        score_ = score;
        found_ = true;
    }

    static constexpr double kNothing = -std::numeric_limits<double>::infinity();
    // All members of a block cost as much as so many of any blocks.
    static constexpr int kFewMembers = 12;
    static constexpr std::size_t kSettledAtOnce = 16;
    static constexpr std::size_t kMostEntered = 64;
    static constexpr std::size_t kFewWaiting = 24;

    const BlockedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    bool changes_;
    proto::race::Key key_;
    std::optional<StandingRace> standing_;
    Workspace& workspace_;
    std::span<const float> ln_first_;  // of all blocks; empty: not made yet
    std::optional<std::span<const Candidate>>
        lifts_;                     // what ends above where it stood, once it was looked for
    std::span<Candidate> unknown_;  // what may, each with the most that it may end at
    OpenedBlock opened_;
    // Tokens that run and have not arrived yet.
    std::array<std::uint32_t, kMostEntered> tokens_;
    std::array<double, kMostEntered> values_;
    std::array<float, kMostEntered> ln_arrivals_;
    std::array<float, kMostEntered> scores_;
    std::size_t entered_ = 0;
    float temperature_ = 1.0F;
    bool found_ = false;
    Candidate best_{};
    float score_ = proto::race::constants::kLeastScore;
    float margin_ = 0.0F;                                // how far below the best score others are looked for
    float rival_ = proto::race::constants::kLeastScore;  // the best other score that was seen
};

}  // namespace croupier::sampler
