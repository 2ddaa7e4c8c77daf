#include "request/wants.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

namespace croupier::request {
namespace {

// Blocks for a greedy request: the best token is in the first one; a few more where penalties may move it.
constexpr std::uint32_t kGreedy = 4;
constexpr std::uint32_t kFew = 32;
constexpr std::uint32_t kMovedByPenalties = 8;
// A step waits for each column that asks for blocks: at temperatures up to 1, up to fourteen real rows in a
// hundred did with 32 of these, and one at most with 64.
constexpr std::uint32_t kOfRace = 72;
constexpr std::uint32_t kOfMinP = 64;
// A nucleus is asked of a race's winner, so that what stands before it must be read. Most of that is among
// the race's best too: with more of these and fewer of those, more columns asked.
constexpr std::uint32_t kOfNucleus = 32;
// Many tokens are within a deviation of the largest, or about as likely as the entropy has it; few of them
// win.
constexpr std::uint32_t kBySpread = 72;
constexpr std::uint32_t kOfListedNucleus = 96;
constexpr std::uint32_t kOfRank = 48;
// Mirostat keeps some of the best by what the row weighs (version 2), or estimates from 100 how many.
constexpr std::uint32_t kOfMirostat = 110;
constexpr std::uint32_t kOfMirostatEstimates = 100;
// Blocks that are opened for the race's best tokens, in three rounds of a CUDA block. Of flat rows they tell
// some three.
constexpr std::uint32_t kOpened = 84;
// To find racers takes a GPU some 15 us, once for all columns that fit on it, and saves a sampler 5 us of
// each (measured on an H200): a dozen samplers gain by it from this many columns on.
constexpr std::ptrdiff_t kRacersFrom = 48;

// Whether a token may end above where it stands, as far as is known here: then the winner of the row as it
// stands says little.
bool may_raise(const Plan& plan, const SamplingParams& params) {
    const bool raises =
        params.repetition_penalty < 1.0 || params.frequency_penalty < 0.0 || params.presence_penalty < 0.0;
    return plan.rules.changes || (raises && takes_step(params, Step::penalties));
}

// Penalties like those for which the margins of reach_of() were measured, and none that raises a token.
bool penalises_mildly(const SamplingParams& params) {
    constexpr double kRepetition = 1.15;
    constexpr double kOther = 0.2;
    const auto is_mild = [](double penalty) { return 0.0 <= penalty && penalty <= kOther; };
    return 1.0 <= params.repetition_penalty && params.repetition_penalty <= kRepetition &&
           is_mild(params.frequency_penalty) && is_mild(params.presence_penalty) &&
           !takes_step(params, Step::dry);
}

// How far below the largest entry a token may stand that passes a min-p. Penalties take the largest down, and
// with it the threshold: the more, the longer the history that they count. Bans and biases do so by any
// amount.
float reach_of(const Plan& plan, const SamplingParams& params) {
    struct Lowered {
        std::uint32_t history;
        double by;
    };
    // With penalties of 1.1, 0.1 and 0.1, real rows and histories: of a hundred columns one at most asks for
    // more.
    constexpr Lowered kLowered[] = {{300, 3.0}, {1500, 6.0}};
    constexpr float kAnything = std::numeric_limits<float>::infinity();
    if (!(plan.cut.min_p > 0.0) || plan.rules.changes) return kAnything;
    const double reach = -std::log(plan.cut.min_p) / plan.cut.scale;
    if (!plan.changes_logits) return static_cast<float>(reach);
    const auto* lowered = std::find_if(std::begin(kLowered), std::end(kLowered), [&](const Lowered& each) {
        return plan.key.position <= each.history;
    });
    if (lowered == std::end(kLowered) || !penalises_mildly(params)) return kAnything;
    return static_cast<float>(reach + lowered->by);
}

bool asks_for_spread(const Plan& plan) {
    return plan.asked == Step::temperature || plan.asked == Step::top_n_sigma ||
           plan.asked == Step::typical_p;
}

// The row's spread tells all that the request's one filter asks of it. Where logits are changed, it is the
// spread of what they were: then the samplers would ask for all blocks with one that is changed.
bool decides_by_spread(const Plan& plan, const SamplingParams& params) {
    // Above it, what stands nearer to the entropy than a typical winner is most of a flat row: eight columns
    // in ten would ask for half of it, and that is slower than all of it at once.
    constexpr double kTypicalUpTo = 1.0;
    return !plan.changes_logits && (plan.asked != Step::typical_p || params.temperature <= kTypicalUpTo);
}

// What mirostat keeps is among few of the best, unless it aims at a large surprise; and of what penalties
// lower few have to be read for what the row weighs.
bool finds_mirostat(const Plan& plan, const SamplingParams& params) {
    constexpr double kMostSurprise = 6.0;
    constexpr std::uint32_t kLongestHistory = 2000;
    if (params.mirostat_tau > kMostSurprise) return false;
    return !takes_adjustment(params) || (plan.key.position <= kLongestHistory && !may_raise(plan, params));
}

// What a first filter lets through is found by the blocks' largest entries, whatever comes behind it, but
// where that is most of a flat row: it would be asked for in several tries.
bool finds_head(const Plan& plan, const SamplingParams& params, std::uint32_t room) {
    constexpr double kListedReach = 5.0;
    constexpr double kListedUpTo = 0.7;
    if (plan.lists_nucleus()) return plan.cut.scale * kListedUpTo >= 1.0;
    if (plan.cut.behind_sigma && plan.changes_logits) return false;
    if (plan.cut.top_k > 0) return plan.cut.top_k <= static_cast<std::int32_t>(room);
    const bool asks_winner = plan.asked == Step::min_p && params.rng == proto::Rng::race;
    return asks_winner || -std::log(plan.cut.min_p) <= kListedReach * plan.cut.scale;
}

// Of the ids that are allowed alone nothing but their own logits is looked at, whatever filters them. But a
// raw rank is that among all tokens, and another engine's draw is not measured here.
bool finds_listed(const SamplingParams& params, const BlockRoom& room) {
    const bool ranks = ranked_logprobs(params) > 0 && !wants_processed(params);
    return room.named && !ranks && params.rng == proto::Rng::race;
}

// Whether the maxima, some blocks and sums are likely to tell what the decision reads.
bool finds_in_blocks(const Plan& plan, const SamplingParams& params, const BlockRoom& room,
                     std::uint32_t left) {
    if (plan.path == DecisionPath::listed) return finds_listed(params, room);
    if (ranked_logprobs(params) > left || !plan.reads_some_blocks()) return false;
    if (plan.path == DecisionPath::head) return finds_head(plan, params, left);
    // What contends by another engine's noise stands in any block.
    if (params.rng != proto::Rng::race) return false;
    if (plan.path == DecisionPath::mirostat) return finds_mirostat(plan, params);
    return !asks_for_spread(plan) || decides_by_spread(plan, params);
}

Wants logprob_sum(const Plan& plan, const SamplingParams& params) {
    if (!wants_processed(params)) return Want::sum_at_one;
    if (!plan.sums_processed) return {};
    return is_greedy(params) ? Want::sum_at_one : Want::sum_at_scale;
}

// Whether the decision reads what the row weighs at the cut's scale.
bool weighs_row(const Plan& plan, const SamplingParams& params) {
    const bool by_mirostat = plan.path == DecisionPath::mirostat && params.mirostat == 2;
    return by_mirostat || plan.lists_nucleus() || plan.asked == Step::top_p || plan.asked == Step::xtc;
}

// The winner of a race among all tokens stands anywhere: of a small room the race has its part too. Lists of
// log-probs are sure to need the largest.
void share_room(LeanWant& want, std::uint32_t room) {
    const std::uint32_t part = want.flags.has(Want::sum_at_one) ? room / 8 : room / 4;
    want.by_maximum = std::min(want.by_maximum, room - std::min(want.by_race, part));
    want.by_race = std::min(want.by_race, room - want.by_maximum);
}

// The best k + 1 blocks tell the best k tokens, if the next has another largest entry; where many have the
// same, a few more. A filter behind them may need fewer, but that is not known here, and a step waits for
// each of its columns that has to ask.
std::uint32_t blocks_of_best(std::uint32_t k, const SamplingParams& params) {
    return k + 1 + k / 8 + (takes_adjustment(params) ? kMovedByPenalties : 0);
}

// The drawn token may stand anywhere: no filter tells by few of the best tokens.
void want_race(LeanWant& want, const Plan& plan, const SamplingParams& params) {
    const bool nucleus = plan.asked == Step::top_p || plan.asked == Step::xtc;
    const bool spread = asks_for_spread(plan);
    const bool tempered = plan.asked == Step::temperature;
    want.by_maximum = nucleus || tempered ? kOfNucleus : spread ? kBySpread : kGreedy;
    want.by_race = kOfRace;
    if (!want.flags.has(Want::draw) && !tempered && !may_raise(plan, params)) {
        want.flags.add(Want::racers);
        want.by_race = kOpened;
    }
    if (spread) want.flags.add(Want::spread);
    // Below, nuclei are narrow, and the room is better used for blocks.
    if (plan.asked == Step::top_p && plan.temperature > 1.0F) want.flags.add(Want::block_weights);
}

void want_blocks(LeanWant& want, const Plan& plan, const SamplingParams& params) {
    if (plan.cut.behind_sigma) want.flags.add(Want::spread);
    if (plan.cut.top_k == 1) {
        want.by_maximum = takes_adjustment(params) ? kFew : kGreedy;
    } else if (plan.cut.top_k > 0) {
        want.by_maximum = blocks_of_best(static_cast<std::uint32_t>(plan.cut.top_k), params);
    } else if (plan.cut.min_p > 0.0) {
        want.by_maximum = kOfMinP;
    } else if (plan.lists_nucleus()) {
        want.by_maximum = kOfListedNucleus;
    } else if (plan.path != DecisionPath::mirostat) {
        want_race(want, plan, params);
    } else if (params.mirostat == 1) {
        want.by_maximum = blocks_of_best(kOfMirostatEstimates, params);
    } else {
        want.by_maximum = kOfMirostat;
    }
}

}  // namespace

LeanWant want_of(const Plan& plan, const SamplingParams& params, const BlockRoom& room) {
    const std::uint32_t left = room.all - room.named.value_or(0);
    LeanWant want;
    want.key = plan.key;
    want.temperature = plan.temperature;
    want.scale = plan.cut.scale;
    want.named = room.named.value_or(0);
    if (wants_logprob(params)) want.flags.add(logprob_sum(plan, params));
    if (weighs_row(plan, params)) want.flags.add(Want::sum_at_scale);
    if (!finds_in_blocks(plan, params, room, left)) {
        want.flags.add(Want::whole);
        return want;
    }
    if (plan.draws_plainly) want.flags.add(Want::draw);
    if (plan.path != DecisionPath::listed) want_blocks(want, plan, params);
    // Together they would not leave room for blocks.
    if (want.named > 0) want.flags.remove(Want::block_weights);
    const std::uint32_t ranked = ranked_logprobs(params);
    if (wants_logprob(params)) want.by_maximum = std::max(want.by_maximum, ranked + ranked / 4 + kGreedy);
    const bool draws = want.temperature > 0.0F;
    // The drawn token's rank is told by all blocks that hold something above it.
    if (draws && ranked > 0) want.by_maximum = std::max(want.by_maximum, kOfRank);
    if (draws && ranked == 0) want.reach = reach_of(plan, params);
    if (!want.flags.has(Want::racers)) share_room(want, left);
    return want;
}

void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room) {
    const auto has_racers = [](const LeanWant& want) { return want.flags.has(Want::racers); };
    if (std::count_if(wants.begin(), wants.end(), has_racers) >= kRacersFrom) return;
    for (LeanWant& want : wants) {
        if (!has_racers(want)) continue;
        want.flags.remove(Want::racers);
        want.by_race = kOfRace;
        share_room(want, room);
    }
}

bool suffices(const Plan& plan, const SamplingParams& params, const LeanWant& want) {
    if (want.flags.has_any(Want::whole | Want::draw) || plan.path == DecisionPath::listed) return true;
    const bool finds_best = plan.path == DecisionPath::head && plan.cut.top_k > 0 && !plan.cut.behind_sigma;
    if (!finds_best || plan.changes_logits) return false;
    // The best k tokens are in the k blocks with the largest maxima. Up to a 16th fewer blocks may be sent,
    // and two fewer where those that ranks share need room.
    constexpr std::uint32_t kShared = 2;
    const std::uint32_t sent = want.by_maximum - want.by_maximum / 16;
    const std::uint32_t best = std::max(static_cast<std::uint32_t>(plan.cut.top_k), ranked_logprobs(params));
    return sent >= best + kShared;
}

}  // namespace croupier::request
