#include "sampler/race.h"

#include <algorithm>
#include <array>

#include "sampler/changed_tokens.h"

namespace croupier::sampler {

using proto::race::constants::kLeastScore;

void Race::begin(double temperature) {
    temperature_ = static_cast<float>(temperature);
    found_ = false;
    score_ = kLeastScore;
    if (!ln_first_.empty()) return;
    const std::span<float> made = workspace_.ln_first_arrivals.first(row_.blocks);
    make_first_arrivals(key_, made);
    ln_first_ = made;
}

std::span<const Candidate> Race::lifted() {
    if (!lifts_) lifts_ = list_raised(adjust_, on_, row_, workspace_, workspace_.lifts);
    return *lifts_;
}

std::uint32_t Race::best_block(std::span<const float> bounds, float most) {
    return static_cast<std::uint32_t>(std::find(bounds.begin(), bounds.end(), most) - bounds.begin());
}

// The first opened block is among them: opened again it changes nothing, and to leave it out costs as much.
std::span<std::uint32_t> Race::list_waiting(std::span<const float> bounds) const {
    const auto waiting =
        workspace_.reached_blocks.first(list_reaching(bounds, score_ - margin_, workspace_.reached_blocks));
    std::make_heap(waiting.begin(), waiting.end(),
                   [bounds](std::uint32_t a, std::uint32_t b) { return bounds[a] < bounds[b]; });
    return waiting;
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

// In batches, a vector's worth of hashes at a time. Where they are many, those whose block arrives too late
// are passed over.
Candidate Race::winner_among(double temperature, std::span<const Candidate> candidates) {
    constexpr std::size_t kBatch = 64;
    constexpr std::size_t kMany = 256;
    const bool many = candidates.size() > kMany;
    if (many) {
        begin(temperature);
    } else {
        temperature_ = static_cast<float>(temperature);
        found_ = false;
        score_ = kLeastScore;
    }
    std::array<std::uint32_t, kBatch> tokens;
    std::array<const Candidate*, kBatch> batch;
    std::array<float, kBatch> ln_arrivals;
    std::size_t count = 0;
    const auto race_batch = [&] {
        make_arrivals(key_, std::span(tokens).first(count), ln_arrivals);
        for (std::size_t i = 0; i < count; ++i) {
            const float entered = proto::race::entered(batch[i]->value);
            offer(*batch[i], proto::race::score(entered, temperature_, ln_arrivals[i]), runs_anywhere);
        }
        count = 0;
    };
    for (const Candidate& each : candidates) {
        if (many && !may_win(each.token, each.value)) continue;
        tokens[count] = each.token;
        batch[count++] = &each;
        if (count == kBatch) race_batch();
    }
    if (count > 0) race_batch();
    return best_;
}

}  // namespace croupier::sampler
