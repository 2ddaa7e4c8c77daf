#include "request/wants.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

namespace croupier::request {
namespace {

// Blocks for a greedy request: the best token is in the first one.
constexpr std::uint16_t kGreedy = 4;
// A step waits for each column that asks for blocks: at temperatures up to 1, up to fourteen real rows in a
// hundred did with 32 of these, and one at most with 64.
constexpr std::uint16_t kOfRace = 72;
// A nucleus is asked of a race's winner, so that what stands before it must be read. Most of that is among
// the race's best too: with more of these and fewer of those, more columns asked.
constexpr std::uint16_t kOfNucleus = 32;
// Many tokens are within a deviation of the largest, or about as likely as the entropy has it; few of them
// win.
constexpr std::uint16_t kBySpread = 72;
constexpr std::uint16_t kOfListedNucleus = 96;
constexpr std::uint16_t kBlocksOfRank = 48;
// Mirostat keeps some of the best by what the row weighs (version 2), or estimates from 100 how many.
constexpr std::uint16_t kOfMirostat = 110;
constexpr std::uint32_t kOfMirostatEstimates = 100;
// Blocks that are opened for the race's best tokens, in three rounds of a CUDA block. Of flat rows they tell
// some three.
constexpr std::uint16_t kOpened = 84;
// To find racers takes a GPU some 15 us, once for all columns that fit on it, and saves a sampler 5 us of
// each (measured on an H200): a dozen samplers gain by it from this many columns on.
constexpr std::ptrdiff_t kRacersFrom = 48;

// Entries that are listed, each of which takes a sixteenth of a block of 16 bits. Of a head without a top-k
// they are more than the search lists before it gives up.
constexpr std::uint32_t kListedEntries = 576;
constexpr std::uint32_t kLoweredEntries = 64;
constexpr std::uint32_t kOfRank = 256;

// Whether penalties may leave a token above where it stands: then the winner of the row as it stands says
// little.
bool penalties_raise(const SamplingParams& params) {
    const bool raises =
        params.repetition_penalty < 1.0 || params.frequency_penalty < 0.0 || params.presence_penalty < 0.0;
    return raises && takes_step(params, Step::penalties);
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

// The scale at which a min-p weighs, or no less than it.
double least_scale(const Plan& plan, const SamplingParams& params) {
    if (!plan.cut.tempered) return plan.cut.scale;
    return 1.0 / std::max(params.temperature + params.dynatemp_range, kLowestTemperature);
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
    const double reach = -std::log(plan.cut.min_p) / least_scale(plan, params);
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

// How many tokens penalties and DRY may change.
std::uint32_t changed_history(const Plan& plan, const SamplingParams& params) {
    // All of them are -1.
    const auto in_window = [&](std::int32_t last) {
        return std::min(plan.key.position, static_cast<std::uint32_t>(last));
    };
    const std::uint32_t penalised =
        takes_step(params, Step::penalties) ? in_window(params.penalty_last_n) : 0;
    return std::max(penalised, takes_step(params, Step::dry) ? in_window(params.dry_penalty_last_n) : 0);
}

// Where logits are changed, a spread is that of what they were: the samplers ask for all blocks with one that
// is changed. Of more, or of lists that may be long, the whole row is cheaper.
constexpr std::uint32_t kFewChanged = 600;
bool changes_few(const Plan& plan, const SamplingParams& params) {
    return !plan.rules.changes && changed_history(plan, params) <= kFewChanged;
}

// The row's spread tells all that the request's one filter asks of it.
bool decides_by_spread(const Plan& plan, const SamplingParams& params) {
    // Above it, what stands nearer to the entropy than a typical winner is most of a flat row: eight columns
    // in ten would ask for half of it, and that is slower than all of it at once.
    constexpr double kTypicalUpTo = 1.0;
    return changes_few(plan, params) && (plan.asked != Step::typical_p || params.temperature <= kTypicalUpTo);
}

// Version 1 looks at the best entries alone, whatever the row weighs.
bool estimates_mirostat(const Plan& plan, const SamplingParams& params) {
    return plan.path == DecisionPath::mirostat && params.mirostat == 1;
}

// What mirostat keeps is among few of the best, unless it aims at a large surprise; and of what penalties
// lower few have to be read for what the row weighs.
bool finds_mirostat(const Plan& plan, const SamplingParams& params) {
    constexpr double kMostSurprise = 6.0;
    constexpr std::uint32_t kLongestHistory = 2000;
    if (params.mirostat_tau > kMostSurprise) return false;
    if (estimates_mirostat(plan, params)) return true;
    const bool raises = plan.rules.changes || penalties_raise(params);
    return !takes_adjustment(params) || (plan.key.position <= kLongestHistory && !raises);
}

// How many entries have room for sure: they stand beside named ids, and somewhat more come than were
// wanted.
std::uint32_t entries_in(std::uint32_t room) {
    constexpr std::uint32_t kOfBlock = 8;
    return room * kOfBlock;
}

// The best k entries, and some more where adjustments may lower them. A filter behind them may need fewer,
// but that is not known here, and a step waits for each of its columns that has to ask.
std::uint32_t entries_of_best(std::uint32_t k, const Plan& plan) {
    return k + (plan.changes_logits ? k / 2 + kLoweredEntries : 0);
}

// Whether the decision looks at the best entries one by one. Where it weighs what the adjustments change, it
// needs blocks, in which these stand. Of a greedy request four blocks are enough, and made at once.
bool looks_at_entries(const Plan& plan, const SamplingParams& params) {
    if (plan.path == DecisionPath::head && plan.cut.top_k == 1) return plan.changes_logits;
    if (plan.path == DecisionPath::head && !plan.lists_nucleus()) return true;
    if (estimates_mirostat(plan, params)) return true;
    const bool weighs = plan.path == DecisionPath::mirostat || plan.lists_nucleus();
    return weighs && !plan.changes_logits;
}

// Whether the rank of a token that is allowed alone is that among all tokens.
bool ranks_among_all(const Plan& plan, const SamplingParams& params) {
    return plan.path == DecisionPath::listed && ranked_logprobs(params) > 0 && !wants_processed(params);
}

// Beside these, a list of log-probs is of the best entries. The drawn token's rank is told by those above it.
bool lists_entries(const Plan& plan, const SamplingParams& params) {
    const bool from_all = plan.path == DecisionPath::race;
    const bool first_maximum = plan.path == DecisionPath::head && plan.cut.top_k == 1;
    const bool ranks = ranked_logprobs(params) > 0;
    return looks_at_entries(plan, params) || ranks_among_all(plan, params) ||
           (ranks && (from_all || first_maximum));
}

std::uint32_t entries_wanted(const Plan& plan, const SamplingParams& params) {
    const std::uint32_t ranked = ranked_logprobs(params);
    std::uint32_t wanted = kListedEntries;
    if (plan.path == DecisionPath::race) {
        wanted = ranked;
    } else if (plan.path == DecisionPath::head && plan.cut.top_k > 0) {
        wanted = entries_of_best(static_cast<std::uint32_t>(plan.cut.top_k), plan);
    } else if (estimates_mirostat(plan, params)) {
        wanted = entries_of_best(kOfMirostatEstimates, plan);
    }
    const bool is_best = is_greedy(params) && !plan.changes_logits && !plan.rules.lists;
    if (ranked > 0) wanted = std::max({wanted, ranked, is_best ? 0U : kOfRank});
    return wanted;
}

// What a first filter lets through is found by the blocks' largest entries, whatever comes behind it, but
// where that is most of a flat row: it would be asked for in several tries.
bool finds_head(const Plan& plan, const SamplingParams& params, std::uint32_t room) {
    constexpr double kListedReach = 5.0;
    constexpr double kListedUpTo = 0.7;
    // Beyond it, what a sum in float is off may be all that is left out.
    constexpr double kMostOfRow = 0.9999;
    if (plan.lists_nucleus()) return plan.cut.scale * kListedUpTo >= 1.0 && params.top_p <= kMostOfRow;
    if ((plan.cut.behind_sigma || plan.cut.tempered) && !changes_few(plan, params)) return false;
    if (plan.cut.by_sigma()) return true;
    if (plan.cut.top_k > 0) return plan.cut.top_k <= static_cast<std::int32_t>(entries_in(room));
    const bool asks_winner = plan.asked == Step::min_p && params.rng == proto::Rng::race;
    return asks_winner || -std::log(plan.cut.min_p) <= kListedReach * least_scale(plan, params);
}

// What penalties raise weighs any amount, and each token of the history is read for it: of a long one most
// of the row would be asked for.
bool weighs_raised_history(const Plan& plan, const SamplingParams& params) {
    const bool weighs = plan.lists_nucleus() || plan.asked == Step::top_p || plan.asked == Step::xtc;
    return weighs && penalties_raise(params) && changed_history(plan, params) > kFewChanged;
}

// Whether the maxima, some blocks and sums are likely to tell what the decision reads.
bool finds_in_blocks(const Plan& plan, const SamplingParams& params, const BlockRoom& room,
                     std::uint32_t left) {
    // Of the ids that are allowed alone nothing but their own logits is looked at, whatever filters them.
    const bool lists = lists_entries(plan, params);
    if (plan.path == DecisionPath::listed && !lists) return room.named.has_value();
    if (ranked_logprobs(params) > (lists ? entries_in(left) : left)) return false;
    if (plan.path == DecisionPath::listed) return room.named.has_value();
    if (!plan.reads_some_blocks()) return false;
    if (weighs_raised_history(plan, params)) return false;
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

void limit(std::uint16_t& wanted, std::uint32_t most) {
    wanted = static_cast<std::uint16_t>(std::min<std::uint32_t>(wanted, most));
}

void leave_room_for_list(LeanWant& want, std::uint32_t room) {
    limit(want.by_race, room / 2);
}

// The winner of a race among all tokens stands anywhere: of a small room the race has its part too. Lists of
// log-probs are sure to need the largest.
void share_room(LeanWant& want, std::uint32_t room) {
    const std::uint32_t part = want.flags.has(Want::sum_at_one) ? room / 8 : room / 4;
    limit(want.by_maximum, room - std::min<std::uint32_t>(want.by_race, part));
    limit(want.by_race, room - want.by_maximum);
}

void want_racers(LeanWant& want) {
    want.flags.add(Want::racers);
    want.by_race = kOpened;
}

// The drawn token may stand anywhere: no filter tells by few of the best tokens.
// `knows_lifted`: the values of the tokens that biases may raise are sent.
void want_race(LeanWant& want, const Plan& plan, const SamplingParams& params, bool knows_lifted) {
    const bool nucleus = plan.asked == Step::top_p || plan.asked == Step::xtc;
    const bool spread = asks_for_spread(plan);
    const bool tempered = plan.asked == Step::temperature;
    want.by_maximum = nucleus || tempered ? kOfNucleus : spread ? kBySpread : kGreedy;
    want.by_race = kOfRace;
    if (!want.flags.has(Want::draw) && !tempered && !penalties_raise(params) && knows_lifted)
        want_racers(want);
    if (spread) want.flags.add(Want::spread);
    // Below, nuclei are narrow, and the room is better used for blocks.
    if (plan.asked == Step::top_p && plan.temperature > 1.0F) want.flags.add(Want::block_weights);
}

void want_blocks(LeanWant& want, const Plan& plan, const SamplingParams& params, bool knows_lifted) {
    if (plan.cut.behind_sigma || plan.cut.tempered) want.flags.add(Want::spread);
    if (plan.path == DecisionPath::mirostat) {
        want.by_maximum = kOfMirostat;
    } else if (plan.lists_nucleus()) {
        want.by_maximum = kOfListedNucleus;
    } else if (plan.path == DecisionPath::head) {
        want.by_maximum = kGreedy;
        // Of a flat row so many pass a min-p that it is asked of the race's winner.
        const bool asks = plan.asked == Step::min_p && params.rng == proto::Rng::race;
        if (asks && plan.cut.tempered) {
            want.by_race = kOfRace;
        } else if (asks && !penalties_raise(params) && knows_lifted) {
            want_racers(want);
        }
    } else {
        want_race(want, plan, params, knows_lifted);
    }
}

// Lists of log-probs are sure to need the largest. The drawn token's rank is told by all blocks that hold
// something above it.
void want_ranked(LeanWant& want, const SamplingParams& params) {
    const std::uint32_t ranked = ranked_logprobs(params);
    const auto listed = static_cast<std::uint16_t>(ranked + ranked / 4 + kGreedy);
    if (wants_logprob(params)) want.by_maximum = std::max(want.by_maximum, listed);
    if (want.temperature > 0.0F && ranked > 0) want.by_maximum = std::max(want.by_maximum, kBlocksOfRank);
}

}  // namespace

LeanWant want_of(const Plan& plan, const SamplingParams& params, const BlockRoom& room) {
    const std::uint32_t left = room.all - blocks_for_named(room.named.value_or(0));
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
    if (plan.path != DecisionPath::listed) want_blocks(want, plan, params, room.named.has_value());
    // Together they would not leave room for blocks.
    if (want.named > 0) want.flags.remove(Want::block_weights);
    const bool lists = lists_entries(plan, params);
    if (lists) {
        want.flags.add(Want::best_entries);
        want.by_maximum =
            static_cast<std::uint16_t>(std::min(entries_wanted(plan, params), entries_in(left)));
    } else {
        want_ranked(want, params);
    }
    const bool ranks = ranked_logprobs(params) > 0;
    // A search looks a little further down than the value that just passes.
    constexpr float kRounding = 0.01F;
    if (want.temperature > 0.0F && !ranks) want.reach = reach_of(plan, params) + kRounding;
    if (!want.flags.has(Want::racers)) lists ? leave_room_for_list(want, left) : share_room(want, left);
    return want;
}

void put_under_mask(LeanWant& want, const Plan& plan, const SamplingParams& params, std::uint16_t mask_row) {
    const bool tells_of_all = !plan.rules.lists || (wants_logprob(params) && !wants_processed(params));
    if (tells_of_all && !want.flags.has(Want::whole)) want.mask_row = mask_row;
}

void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room) {
    const auto has_racers = [](const LeanWant& want) { return want.flags.has(Want::racers); };
    if (std::count_if(wants.begin(), wants.end(), has_racers) >= kRacersFrom) return;
    for (LeanWant& want : wants) {
        if (!has_racers(want)) continue;
        want.flags.remove(Want::racers);
        want.by_race = kOfRace;
        if (want.flags.has(Want::best_entries)) {
            leave_room_for_list(want, room);
        } else {
            share_room(want, room);
        }
    }
}

bool suffices(const Plan& plan, const SamplingParams& params, const LeanWant& want) {
    if (want.flags.has_any(Want::whole | Want::draw)) return true;
    if (plan.path == DecisionPath::listed) return !ranks_among_all(plan, params);
    const bool by_row = plan.cut.behind_sigma || plan.cut.tempered;
    const bool finds_best = plan.path == DecisionPath::head && plan.cut.top_k > 0 && !by_row;
    if (!finds_best || plan.changes_logits) return false;
    const std::uint32_t best = std::max(static_cast<std::uint32_t>(plan.cut.top_k), ranked_logprobs(params));
    if (want.flags.has(Want::best_entries)) return want.by_maximum >= best;
    // The best k tokens are in the k blocks with the largest maxima. Up to a 16th fewer blocks may be sent,
    // and two fewer where those that ranks share need room.
    constexpr std::uint32_t kShared = 2;
    const std::uint32_t sent = want.by_maximum;
    return sent - sent / 16 >= best + kShared;
}

}  // namespace croupier::request
