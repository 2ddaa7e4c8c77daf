#include "gpu_writer/column_wants.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "gpu_writer/begun_steps.h"
#include "proto/sampling_steps.h"

namespace croupier::gpu_writer {
namespace {

using proto::SamplingParams;
using proto::Step;

// Blocks by what decides: the best token is in the first; a few more where penalties may move it.
constexpr std::uint32_t kGreedy = 4;
constexpr std::uint32_t kFew = 32;
constexpr std::uint32_t kMovedByPenalties = 8;
// A step waits for each column that asks: at temperatures up to 1, up to fourteen real rows in a hundred did
// with 32 of these, and one at most with 64.
constexpr std::uint32_t kOfRace = 72;
constexpr std::uint32_t kOfMinP = 64;
// A nucleus is asked of a race's winner: what stands before it must be read. Most of that is among the
// race's best too: with more of these and fewer of those, more columns asked.
constexpr std::uint32_t kOfNucleus = 32;
// What is within a deviation of the largest, or about as likely as the entropy has it, are many; and who wins
// among them are few.
constexpr std::uint32_t kBySpread = 72;
constexpr std::uint32_t kOfListedNucleus = 96;
constexpr std::uint32_t kOfRank = 48;
// Mirostat keeps some of the best by what the row weighs, or estimates from so many how many.
constexpr std::uint32_t kOfMirostat = 110;
constexpr std::uint32_t kOfMirostatEstimates = 100;
// As many are opened for the race's best tokens, in three rounds of a CUDA block. Of flat rows they tell some
// three.
constexpr std::uint32_t kOpened = 84;
// To find these takes a GPU some 15 us, once for all columns that fit on it, and saves a sampler 5 us of
// each: a dozen samplers gain by it from so many columns on (docs/decisions/0020-a-lean-transport.md).
constexpr std::ptrdiff_t kRacersFrom = 48;

// Whether a token may end above where it stands, as far as is known here: then the winner of the row as it
// stands says little.
bool may_raise(const SamplingParams& params, const proto::RequestRules& rules) {
    const bool raises =
        params.repetition_penalty < 1.0 || params.frequency_penalty < 0.0 || params.presence_penalty < 0.0;
    return rules.changes || (raises && proto::is_switched_on(params, Step::penalties));
}

// Penalties like those for which the margins of reach_of() were measured, and none that raises a token.
bool penalises_mildly(const SamplingParams& params) {
    constexpr double kRepetition = 1.15;
    constexpr double kOther = 0.2;
    const auto is_mild = [](double penalty) { return 0.0 <= penalty && penalty <= kOther; };
    return 1.0 <= params.repetition_penalty && params.repetition_penalty <= kRepetition &&
           is_mild(params.frequency_penalty) && is_mild(params.presence_penalty) &&
           !proto::is_switched_on(params, Step::dry);
}

// How far below the largest entry what passes a min-p may stand. Penalties take the largest down, and what it
// passes with it: the more, the longer the history that they count. Bans and biases do so by any amount.
float reach_of(const SamplingParams& params, const proto::FirstCut& cut, const proto::RequestRules& rules,
               std::uint32_t history) {
    struct Lowered {
        std::uint32_t history;
        double by;
    };
    // With penalties of 1.1, 0.1 and 0.1, real rows and histories: of a hundred columns one at most asks for
    // more.
    constexpr Lowered kLowered[] = {{300, 3.0}, {1500, 6.0}};
    constexpr float kAnything = std::numeric_limits<float>::infinity();
    if (!(cut.min_p > 0.0) || rules.changes) return kAnything;
    const double reach = -std::log(cut.min_p) / cut.scale;
    if (!proto::lowers_or_raises(params)) return static_cast<float>(reach);
    const auto* lowered = std::find_if(std::begin(kLowered), std::end(kLowered),
                                       [=](const Lowered& each) { return history <= each.history; });
    if (lowered == std::end(kLowered) || !penalises_mildly(params)) return kAnything;
    return static_cast<float>(reach + lowered->by);
}

bool changes_logits(const SamplingParams& params, const proto::RequestRules& rules) {
    return proto::lowers_or_raises(params) || rules.changes;
}

// The row's spread tells all that the request's one filter asks of it. Where logits are changed, it is the
// spread of what they were: then the samplers would ask for all blocks with one that is changed.
bool decides_by_spread(const SamplingParams& params, const proto::RequestRules& rules) {
    // Above it, what stands nearer to the entropy than a typical winner is most of a flat row: eight columns
    // in ten would ask for half of it, and that is slower than all of it at once.
    constexpr double kTypicalUpTo = 1.0;
    if (changes_logits(params, rules)) return false;
    if (proto::is_tempered_dynamically(params)) return !proto::is_truncated(params);
    const Step filter = proto::only_filter(params);
    return filter == Step::top_n_sigma || (filter == Step::typical_p && params.temperature <= kTypicalUpTo);
}

// It answers with all tokens that are left, or draws from all of them by other means than the race.
bool takes_in_all_left(const SamplingParams& params, const proto::RequestRules& rules) {
    const bool processed = proto::wants_processed(params) && !proto::processed_by_weight(params, rules);
    return processed || params.support > 0 || params.rng != proto::Rng::race || params.adaptive_target >= 0.0;
}

// By the race among what its one filter keeps.
bool draws_by_one_filter(const SamplingParams& params, const proto::RequestRules& rules, Step filter) {
    return !takes_in_all_left(params, rules) && params.mirostat == 0 && proto::only_filter(params) == filter;
}

// What mirostat keeps is among few of the best, unless it aims at a large surprise; and of what penalties
// lower few have to be read for what the row weighs.
bool finds_mirostat(const SamplingParams& params, const proto::RequestRules& rules, std::uint32_t history) {
    constexpr double kMostSurprise = 6.0;
    constexpr std::uint32_t kLongestHistory = 2000;
    const bool lowers = proto::lowers_or_raises(params);
    return params.mirostat_tau <= kMostSurprise && !(lowers && history > kLongestHistory) &&
           !(lowers && may_raise(params, rules));
}

// Of a top-p that stands first, what it keeps is listed for what comes behind it; alone, it is asked of the
// race's winner.
bool lists_nucleus(const SamplingParams& params, const proto::FirstCut& cut,
                   const proto::RequestRules& rules) {
    const bool asks_winner = draws_by_one_filter(params, rules, Step::top_p);
    return cut.by_top_p() && !(asks_winner && proto::changes_first(params, cut));
}

// The row is read whole, or what is read of it cannot be told from the largest entries of its blocks. What a
// first filter lets through is found by these, whatever comes behind it.
bool needs_all(const SamplingParams& params, const proto::FirstCut& cut, const proto::RequestRules& rules,
               std::uint32_t history, std::uint32_t room) {
    // What stands within more of the best, and a nucleus at a higher temperature, are most of a flat row:
    // where what comes behind them needs all that pass, it would be asked for in several tries.
    constexpr double kListedReach = 5.0;
    constexpr double kListedUpTo = 0.7;
    if (params.logprobs > room) return true;
    if (proto::is_greedy(params))
        return proto::wants_processed(params) && !proto::processed_by_weight(params, rules);
    if (cut.behind_sigma && changes_logits(params, rules)) return true;
    if (cut.top_k > 0) return cut.top_k > static_cast<std::int32_t>(room);
    if (cut.min_p > 0.0) {
        const bool asks_winner = draws_by_one_filter(params, rules, Step::min_p);
        return !asks_winner && !(-std::log(cut.min_p) <= kListedReach * cut.scale);
    }
    if (lists_nucleus(params, cut, rules)) return !(cut.scale * kListedUpTo >= 1.0);
    if (takes_in_all_left(params, rules) || !proto::changes_first(params, cut)) return true;
    if (proto::is_tempered_dynamically(params)) return !decides_by_spread(params, rules);
    if (params.mirostat != 0) return proto::is_truncated(params) || !finds_mirostat(params, rules, history);
    if (!proto::is_truncated(params)) return false;
    const Step filter = proto::only_filter(params);
    return filter != Step::top_p && filter != Step::xtc && !decides_by_spread(params, rules);
}

// What the row weighs where the log-prob is told by that.
std::uint32_t logprob_sum(const SamplingParams& params, const proto::RequestRules& rules) {
    if (!proto::wants_processed(params)) return kSumAtOne;
    if (!proto::processed_by_weight(params, rules)) return 0;
    return proto::is_greedy(params) ? kSumAtOne : kSumAtScale;
}

// Of the ids that are allowed alone nothing but their own logits is looked at, whatever filters them.
bool needs_more_than_listed(const SamplingParams& params) {
    // A raw rank is that among all tokens.
    const bool ranks = params.logprobs > 0 && !proto::wants_processed(params);
    return ranks || params.rng != proto::Rng::race;
}

proto::RequestRules rules_of(const SamplingParams& params, const proto::SequenceEntry& entry,
                             const proto::ScheduleColumn& column) {
    const bool bans_stops = column.position < params.min_tokens;
    return {entry.allowed_count > 0, entry.bias_count > 0 || entry.bad_words_count > 0 || bans_stops};
}

// The counts are another process's. A list that names too many blocks is not read to its end.
void add_named(const shm::Segment& segment, std::uint32_t slot, const proto::SequenceEntry& entry,
               const proto::RequestRules& rules, NamedBlocks& blocks) {
    const proto::Geometry& geometry = segment.geometry();
    const std::uint32_t most = most_named(rules, geometry.lean_blocks);
    if (rules.lists) {
        const std::uint32_t count = std::min(entry.allowed_count, geometry.max_list_tokens);
        const std::int32_t* ids = segment.lists(slot);
        for (std::uint32_t i = 0; i < count && blocks.count() <= most; ++i) blocks.add(ids[i]);
        return;
    }
    const std::uint32_t count = std::min<std::uint32_t>(entry.bias_count, geometry.max_bias);
    const proto::TokenBias* biases = segment.biases(slot);
    for (std::uint32_t i = 0; i < count && blocks.count() <= most; ++i) {
        if (biases[i].bias > 0.0F) blocks.add(biases[i].token);
    }
}

// Who wins a race among all tokens stands anywhere: of a small room the race has its part too. Lists of
// log-probs are sure to need the largest.
void share_room(LeanWant& want, std::uint32_t room) {
    const std::uint32_t part = (want.flags & kSumAtOne) != 0 ? room / 8 : room / 4;
    want.by_maximum = std::min(want.by_maximum, room - std::min(want.by_race, part));
    want.by_race = std::min(want.by_race, room - want.by_maximum);
}

// The best k + 1 blocks tell the best k tokens, if the next has another largest entry; where many have the
// same, a few more. A filter behind them may need fewer, but who knows: a step waits for each of its columns
// that has to ask.
std::uint32_t blocks_of_best(std::uint32_t k, const SamplingParams& params) {
    return k + 1 + k / 8 + (proto::lowers_or_raises(params) ? kMovedByPenalties : 0);
}

// Who is drawn may stand anywhere: no filter tells by few of the best tokens.
void want_race(LeanWant& want, const SamplingParams& params, const proto::RequestRules& rules, bool stands) {
    const bool nucleus = proto::takes_step(params, Step::top_p) || proto::takes_step(params, Step::xtc);
    const bool spread = decides_by_spread(params, rules);
    const bool tempered = proto::is_tempered_dynamically(params);
    want.by_maximum = nucleus || spread ? kOfNucleus : kGreedy;
    if (spread && !tempered) want.by_maximum = kBySpread;
    want.by_race = kOfRace;
    if (!stands && !tempered && !may_raise(params, rules)) {
        want.flags |= kSendRacers;
        want.by_race = kOpened;
    }
    if (!stands && spread) want.flags |= kSumSpread;
    // The entropy is that of the row as it stands.
    if (tempered) want.scale = 1.0;
    if (nucleus) want.flags |= kSumAtScale;
    // Below, nuclei are narrow, and the room is better used for blocks.
    if (params.top_p < 1.0 && params.temperature > 1.0) want.flags |= kWeighBlocks;
}

void want_blocks(LeanWant& want, const SamplingParams& params, const proto::FirstCut& cut,
                 const proto::RequestRules& rules) {
    if (cut.behind_sigma && (want.flags & kWhole) == 0) want.flags |= kSumSpread;
    if (cut.top_k == 1) {
        want.by_maximum = proto::lowers_or_raises(params) ? kFew : kGreedy;
    } else if (cut.top_k > 0) {
        want.by_maximum = blocks_of_best(static_cast<std::uint32_t>(cut.top_k), params);
    } else if (cut.min_p > 0.0) {
        want.by_maximum = kOfMinP;
    } else if (lists_nucleus(params, cut, rules)) {
        want.by_maximum = kOfListedNucleus;
        want.flags |= kSumAtScale;
    } else if (params.mirostat == 1) {
        want.by_maximum = blocks_of_best(kOfMirostatEstimates, params);
    } else if (params.mirostat == 2) {
        want.by_maximum = kOfMirostat;
        want.flags |= kSumAtScale;
    } else {
        want_race(want, params, rules, (want.flags & (kDraw | kWhole)) != 0);
    }
}

}  // namespace

LeanWant want_of(const SamplingParams& given, const proto::race::Key& key, const proto::RequestRules& rules,
                 std::uint32_t vocab, const BlockRoom& of) {
    const SamplingParams params = proto::with_plain_top_k(given, vocab);
    const std::uint32_t room = of.all - of.named.value_or(0);
    const proto::FirstCut cut = proto::first_cut(params);
    LeanWant want;
    want.key = key;
    const bool plain = proto::draws_plainly(params, rules, vocab);
    if (plain) want.flags |= kDraw;
    if (rules.lists ? !of.named || needs_more_than_listed(params)
                    : !plain && needs_all(params, cut, rules, key.position, room)) {
        want.flags |= kWhole;
    }
    want.temperature = proto::race_temperature(params);
    want.scale = cut.scale;
    want.named = of.named.value_or(0);
    if (!rules.lists) want_blocks(want, params, cut, rules);
    // Together they would not leave room for blocks.
    if (want.named > 0) want.flags &= ~kWeighBlocks;
    if (proto::wants_logprob(params)) {
        want.flags |= logprob_sum(params, rules);
        want.by_maximum = std::max(want.by_maximum, params.logprobs + params.logprobs / 4 + kGreedy);
        // The drawn token's rank is told by all blocks that hold something above it.
        if (params.logprobs > 0 && want.temperature > 0.0F)
            want.by_maximum = std::max(want.by_maximum, kOfRank);
    }
    if (want.temperature > 0.0F && params.logprobs == 0)
        want.reach = reach_of(params, cut, rules, key.position);
    if ((want.flags & kSendRacers) == 0) share_room(want, room);
    return want;
}

void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room) {
    const auto has_racers = [](const LeanWant& want) { return (want.flags & kSendRacers) != 0; };
    if (std::count_if(wants.begin(), wants.end(), has_racers) >= kRacersFrom) return;
    for (LeanWant& want : wants) {
        if (!has_racers(want)) continue;
        want.flags &= ~kSendRacers;
        want.by_race = kOfRace;
        share_room(want, room);
    }
}

StepMasks masks_of(const shm::Segment& segment, std::uint64_t step) {
    if (segment.geometry().mask_rows == 0) return {};
    return {segment.mask_row(segment.slot_of(step), 0), segment.layout().mask_row_words};
}

void read_wants(const shm::Segment& segment, const proto::StoredArray<const proto::ScheduleColumn>& columns,
                NamedBlocks& blocks, std::span<LeanWant> wants, std::span<std::uint16_t> names) {
    const proto::Geometry& geometry = segment.geometry();
    const std::uint32_t room = geometry.lean_blocks;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const proto::ScheduleColumn column = columns[i];
        wants[i] = {};
        const proto::SequenceEntry* entry = live_sequence(segment, column);
        if (entry == nullptr) continue;
        const SamplingParams params = segment.params(column.sequence_slot);
        const proto::RequestRules rules = rules_of(params, *entry, column);
        const auto own = names.subspan(i * room, most_named(rules, room));
        add_named(segment, column.sequence_slot, *entry, rules, blocks);
        wants[i] = want_of(params, {params.seed, entry->prompt_length + column.position, params.child}, rules,
                           geometry.vocab, {room, blocks.take(own)});
        if (column.mask_row == 0 || column.mask_row > geometry.mask_rows) continue;
        // What is told under a mask would be of all that it allows, listed or not.
        if (rules.lists) wants[i].flags |= kWhole;
        if ((wants[i].flags & kWhole) == 0) wants[i].mask_row = static_cast<std::uint16_t>(column.mask_row);
    }
    spare_few_racers(wants.first(columns.size()), room);
}

}  // namespace croupier::gpu_writer
