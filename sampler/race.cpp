#include "sampler/race.h"

#include <algorithm>
#include <cmath>

#include "sampler/candidates.h"
#include "sampler/changed_tokens.h"

namespace croupier::sampler {

using proto::race::constants::kLeastScore;

// Whether no other token can overtake the racers that stand best, but those that biases raise.
bool Race::foresees() const {
    return standing_ && standing_->temperature == temperature_ && adjust_.lowers_only(on_);
}

std::optional<float> Race::logit_of(const proto::Racer& racer) const {
    if (!std::isnan(racer.logit)) return racer.logit;
    return row_.is_there(racer.token / kBlock) ? std::optional(row_.value_at(racer.token)) : std::nullopt;
}

void Race::begin_among(double temperature) {
    temperature_ = static_cast<float>(temperature);
    found_ = false;
    score_ = kLeastScore;
}

void Race::begin(double temperature) {
    begin_among(temperature);
    if (!ln_first_.empty()) return;
    const std::span<float> made = workspace_.ln_first_arrivals.first(row_.blocks);
    make_first_arrivals(key_, made);
    ln_first_ = made;
}

std::span<const Candidate> Race::lifted() {
    if (lifts_) return *lifts_;
    if (row_.lean == nullptr || adjust_.lowers_only(on_)) {
        lifts_ = list_raised(adjust_, on_, row_, workspace_, workspace_.lifts);
        return *lifts_;
    }
    const RaisedInPart raised = list_raised_in_part(
        adjust_, on_, row_, workspace_, workspace_.lifts, [](double) { return false; }, [](double) {});
    unknown_ = raised.unknown;
    lifts_ = raised.known;
    return *lifts_;
}

// Of a row that is there in part.
void Race::ask_for_unknown() {
    const auto end = std::partition(unknown_.begin(), unknown_.end(),
                                    [&](const Candidate& each) { return may_win(each.token, each.value); });
    const auto needed = unknown_.first(static_cast<std::size_t>(end - unknown_.begin()));
    if (!needed.empty()) ask_for_highest(row_, needed);
}

std::uint32_t Race::best_block(std::span<const float> bounds, float most) const {
    (void)list_reaching(bounds, most, workspace_.reached_blocks);
    return workspace_.reached_blocks.front();
}

// The first opened block is among them: opened again it changes nothing, and to leave it out costs as much.
std::span<std::uint32_t> Race::list_waiting(std::span<const float> bounds) const {
    return workspace_.reached_blocks.first(
        list_reaching(bounds, score_ - margin_, workspace_.reached_blocks));
}

// Of the blocks that wait after the first one was opened, most cannot win once the best few have run. Puts
// the best few last and returns how many they are.
std::size_t Race::set_best_apart(std::span<std::uint32_t> waiting, std::span<const float> bounds) {
    constexpr std::uint32_t kBest = 12;
    const float floor = floor_for_blocks(bounds, kBest);
    const auto best = std::partition(waiting.begin(), waiting.end(),
                                     [&](std::uint32_t block) { return bounds[block] < floor; });
    return static_cast<std::size_t>(waiting.end() - best);
}

std::span<std::uint32_t> Race::still_waiting(std::span<std::uint32_t> waiting,
                                             std::span<const float> bounds) const {
    const float least = score_ - margin_;
    const auto late = std::remove_if(waiting.begin(), waiting.end(),
                                     [&](std::uint32_t block) { return bounds[block] < least; });
    return waiting.first(static_cast<std::size_t>(late - waiting.begin()));
}

void Race::order_by_bound(std::span<std::uint32_t> waiting, std::span<const float> bounds) {
    std::make_heap(waiting.begin(), waiting.end(),
                   [bounds](std::uint32_t a, std::uint32_t b) { return bounds[a] < bounds[b]; });
}

std::uint32_t Race::take_best(std::span<std::uint32_t>& waiting, std::span<const float> bounds) {
    std::pop_heap(waiting.begin(), waiting.end(),
                  [bounds](std::uint32_t a, std::uint32_t b) { return bounds[a] < bounds[b]; });
    const std::uint32_t block = waiting.back();
    waiting = waiting.first(waiting.size() - 1);
    return block;
}

bool Race::may_win(std::uint32_t token, double logit) const {
    const float bound =
        proto::race::score(proto::race::entered(logit), temperature_, ln_first_[token / kBlock]);
    return !found_ || bound >= score_ - margin_;
}

float Race::score_of(std::uint32_t token, double logit) const {
    const float ln_arrival = proto::race::ln(proto::race::arrival(key_, token));
    return proto::race::score(proto::race::entered(logit), temperature_, ln_arrival);
}

void Race::score_each(std::span<const Candidate> some) {
    std::transform(some.begin(), some.end(), tokens_.begin(),
                   [](const Candidate& each) { return each.token; });
    make_arrivals(key_, std::span(tokens_).first(some.size()), ln_arrivals_);
    for (std::size_t i = 0; i < some.size(); ++i)
        scores_[i] = proto::race::score(proto::race::entered(some[i].value), temperature_, ln_arrivals_[i]);
}

// Where they are many, those whose block arrives too late are passed over.
Candidate Race::winner_among(double temperature, std::span<const Candidate> candidates) {
    constexpr std::size_t kMany = 256;
    const bool many = candidates.size() > kMany;
    many ? begin(temperature) : begin_among(temperature);
    for (const Candidate& each : candidates) {
        if (many && !may_win(each.token, each.value)) continue;
        enter(each);
        if (entered_ == kMostEntered) settle(runs_anywhere);
    }
    settle(runs_anywhere);
    return best_;
}

std::optional<Candidate> Race::clear_winner_among(double temperature, float margin,
                                                  std::span<const Candidate> candidates) {
    margin_ = margin;
    rival_ = proto::race::constants::kLeastScore;
    const Candidate best = winner_among(temperature, candidates);
    margin_ = 0.0F;
    return rival_ < score_ - margin ? std::optional(best) : std::nullopt;
}

}  // namespace croupier::sampler
