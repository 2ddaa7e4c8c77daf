#include "bench/cliffs/controls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "proto/param_ranges.h"
#include "proto/sampling.h"

namespace croupier::bench {
namespace {

namespace fields = proto::fields;
using proto::Rng;
using proto::Step;

// Of ranges whose end is no value of theirs, or switches the control off.
constexpr double kAlmostNothing = 1e-9;
constexpr double kAlmostOne = 1.0 - 1e-6;

double over(const Drawing& it, const proto::Interval& range) {
    return it.draws.from(range.low, range.high);
}

// Different ids, some of them likely ones; consecutive ids in one case of four.
std::vector<std::int32_t> drawn_ids(const Drawing& it, std::uint32_t count) {
    count = std::min(count, it.space.vocab / 2);
    std::vector<std::int32_t> ids;
    if (it.draws.one_in(4)) {
        const std::uint32_t first = it.draws.below(it.space.vocab - count + 1);
        for (std::uint32_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(first + i));
        return ids;
    }
    std::set<std::int32_t> seen;
    while (ids.size() < count) {
        const std::int32_t token = it.draws.token(it.space);
        if (seen.insert(token).second) ids.push_back(token);
    }
    return ids;
}

void draw_top_k(const Drawing& it) {
    it.params().top_k = static_cast<std::int32_t>(it.draws.count(1, it.space.vocab - 1));
}
void draw_top_p(const Drawing& it) {
    it.params().top_p = it.draws.from(kAlmostNothing, kAlmostOne);
}
void draw_min_p(const Drawing& it) {
    it.params().min_p = it.draws.scaled(kAlmostNothing, fields::min_p.allowed.high);
}
void draw_top_n_sigma(const Drawing& it) {
    it.params().top_n_sigma = it.draws.scaled(0.01, fields::top_n_sigma.allowed.high);
}
void draw_typical(const Drawing& it) {
    it.params().typical_p = it.draws.from(kAlmostNothing, kAlmostOne);
}
void draw_xtc(const Drawing& it) {
    it.params().xtc_probability = 1.0;
    it.params().xtc_threshold = it.draws.scaled(kAlmostNothing, 0.5);
}
void draw_dynatemp(const Drawing& it) {
    it.params().dynatemp_range = it.draws.scaled(0.01, fields::dynatemp_range.allowed.high);
    it.draws.choose_place();
    it.params().dynatemp_exponent = it.draws.scaled(0.01, fields::dynatemp_exponent.allowed.high);
}
void draw_mirostat(const Drawing& it, std::uint8_t version) {
    it.params().mirostat = version;
    it.params().mirostat_tau = it.draws.scaled(0.1, 20.0);
}
void draw_mirostat_1(const Drawing& it) {
    draw_mirostat(it, 1);
}
void draw_mirostat_2(const Drawing& it) {
    draw_mirostat(it, 2);
}
void draw_adaptive(const Drawing& it) {
    it.params().adaptive_target = it.draws.from(0.0, fields::adaptive_target.allowed.high);
    it.draws.choose_place();
    it.params().adaptive_decay = over(it, fields::adaptive_decay.allowed);
}

// Of the last tokens: all of the history in half of the requests.
void draw_last_n(const Drawing& it, std::int32_t& last_n) {
    if (it.draws.one_in(2)) last_n = static_cast<std::int32_t>(it.draws.count(1, it.drawn.history));
}
void draw_repetition(const Drawing& it) {
    it.params().repetition_penalty =
        it.draws.scaled(fields::repetition_penalty.allowed.low, fields::repetition_penalty.allowed.high);
    draw_last_n(it, it.params().penalty_last_n);
}
void draw_mild_penalties(const Drawing& it) {
    it.params().repetition_penalty = 1.0 + it.draws.from(0.01, 0.3);
    it.params().frequency_penalty = it.draws.from(0.0, 0.5);
    it.params().presence_penalty = it.draws.from(0.0, 0.5);
}
void draw_frequency(const Drawing& it) {
    it.params().frequency_penalty = over(it, fields::frequency_penalty.allowed);
    draw_last_n(it, it.params().penalty_last_n);
}
void draw_presence(const Drawing& it) {
    it.params().presence_penalty = over(it, fields::presence_penalty.allowed);
    draw_last_n(it, it.params().penalty_last_n);
}
void draw_dry(const Drawing& it) {
    it.params().dry_multiplier = it.draws.scaled(0.1, fields::dry_multiplier.allowed.high);
    it.params().dry_base = it.draws.scaled(1.0, 20.0);
    it.params().dry_allowed_length = static_cast<std::int32_t>(it.draws.count(1, 100));
    draw_last_n(it, it.params().dry_penalty_last_n);
    if (it.draws.one_in(2)) return;
    for (const std::int32_t token : drawn_ids(it, it.draws.count(1, 20))) {
        it.drawn.request.dry_breakers.push_back(1);
        it.drawn.request.dry_breakers.push_back(token);
    }
}

// As many ids as a strict grammar allows, up to all but few.
void draw_mask(const Drawing& it) {
    std::vector<std::uint32_t>& words = it.drawn.request.mask;
    words = empty_mask(it.space.vocab);
    const bool most = it.draws.one_in(2);
    const std::uint32_t ids = it.draws.count(1, it.space.vocab / 2);
    if (most) std::fill(words.begin(), words.end(), ~0U);
    for (std::uint32_t i = 0; i < ids; ++i) {
        const std::uint32_t id = it.draws.below(it.space.vocab);
        const std::uint32_t bit = 1U << id % 32;
        words[id / 32] = most ? words[id / 32] & ~bit : words[id / 32] | bit;
    }
    const auto kept = static_cast<std::uint32_t>(it.kept);
    words[kept / 32] |= 1U << kept % 32;
}

void draw_allowed_ids(const Drawing& it) {
    constexpr std::uint32_t kMost = 50'000;
    it.drawn.request.allowed = drawn_ids(it, it.draws.count(1, kMost));
    it.drawn.request.allowed.front() = it.kept;
}

void draw_biases(const Drawing& it) {
    constexpr std::uint32_t kMost = 300;
    constexpr double kRange = 100.0;
    const std::vector<std::int32_t> ids = drawn_ids(it, it.draws.count(1, kMost));
    const bool even = it.draws.one_in(2);
    const double one = it.draws.from(-kRange, kRange);
    for (const std::int32_t token : ids) {
        // In sixteenths, half of them small, as people write them.
        const double other = (it.draws.one_in(2) ? kRange : 5.0) * (2.0 * it.draws.unit() - 1.0);
        const double bias = std::round((even ? one : other) * 16.0) / 16.0;
        it.drawn.request.bias.push_back({token, static_cast<float>(bias)});
    }
}

void draw_bad_words(const Drawing& it) {
    constexpr std::uint32_t kMost = 300;
    for (std::uint32_t words = it.draws.count(1, kMost); words > 0; --words) {
        std::vector<std::int32_t> ids = drawn_ids(it, 1 + it.draws.below(3));
        std::erase(ids, it.kept);
        if (ids.empty()) continue;
        it.drawn.request.bad_words.push_back(static_cast<std::int32_t>(ids.size()));
        it.drawn.request.bad_words.insert(it.drawn.request.bad_words.end(), ids.begin(), ids.end());
    }
}

void draw_min_tokens(const Drawing& it) {
    constexpr std::uint32_t kMostStops = 32;
    it.params().min_tokens = it.drawn.history + 1'000'000;
    it.drawn.request.stop_ids = drawn_ids(it, it.draws.count(1, kMostStops));
    std::erase(it.drawn.request.stop_ids, it.kept);
    if (!it.drawn.request.stop_ids.empty()) it.params().eos_token_id = it.drawn.request.stop_ids.front();
}

void draw_loops(const Drawing& it) {
    proto::SamplingParams& params = it.params();
    params.loop_max_period = static_cast<std::uint16_t>(it.draws.count(1, proto::kMaxLoopPeriod));
    params.loop_min_period = static_cast<std::uint16_t>(it.draws.count(1, params.loop_max_period));
    const std::uint32_t most = std::min(255U, proto::kMaxLoopTokens / params.loop_max_period);
    params.loop_count = static_cast<std::uint8_t>(it.draws.count(2, most));
    it.drawn.repeats = it.drawn.repeats || it.draws.one_in(2);
}

void draw_logprobs(const Drawing& it, proto::LogprobMode mode) {
    constexpr std::array<std::uint32_t, 4> kCounts = {0, 1, 20, 1000};
    it.params().flags = it.draws.one_in(2) ? 0 : proto::kRankCountsTies;
    it.params().logprob_mode = mode;
    const std::uint32_t most = it.space.lean ? proto::kMaxSessionLogprobs : proto::kMaxLogprobs;
    it.params().logprobs = std::min({kCounts[it.draws.below(kCounts.size())], most, it.space.vocab});
}
void draw_raw_logprobs(const Drawing& it) {
    draw_logprobs(it, proto::LogprobMode::raw);
}
void draw_processed_logprobs(const Drawing& it) {
    draw_logprobs(it, proto::LogprobMode::processed);
}

void draw_support(const Drawing& it) {
    it.params().support = it.draws.count(1, proto::kMaxSupport);
}

// Of all steps, or of some: those that are left out do nothing.
void draw_order(const Drawing& it) {
    constexpr auto kSteps = static_cast<std::uint32_t>(Step::count_) - 1;
    proto::StepOrder order = proto::kDefaultOrder;
    for (std::uint32_t i = 0; i < kSteps; ++i) std::swap(order[i], order[i + it.draws.below(kSteps - i)]);
    if (it.draws.one_in(4)) std::fill(order.begin() + 1 + it.draws.below(kSteps), order.end(), Step::end);
    it.params().order = order;
}

void draw_rng(const Drawing& it) {
    constexpr std::array kRngs = {Rng::sglang, Rng::vllm, Rng::shvs};
    it.params().rng = kRngs[it.draws.below(it.space.lean ? 2 : 3)];
}

constexpr std::array kControls = {
    Control{"top_k", draw_top_k},
    Control{"top_p", draw_top_p},
    Control{"min_p", draw_min_p},
    Control{"top_n_sigma", draw_top_n_sigma},
    Control{"typical_p", draw_typical},
    Control{"xtc", draw_xtc},
    Control{"dynatemp", draw_dynatemp},
    Control{"mirostat 1", draw_mirostat_1, Excludes::draws},
    Control{"mirostat 2", draw_mirostat_2, Excludes::draws},
    Control{"adaptive_p", draw_adaptive, Excludes::draws},
    Control{"repetition", draw_repetition},
    Control{"frequency", draw_frequency},
    Control{"presence", draw_presence},
    Control{"mild penalties", draw_mild_penalties},
    Control{"dry", draw_dry},
    Control{"mask", draw_mask},
    Control{"allowed ids", draw_allowed_ids},
    Control{"biases", draw_biases},
    Control{"bad words", draw_bad_words},
    Control{"min_tokens", draw_min_tokens},
    Control{"loops", draw_loops},
    Control{"logprobs", draw_raw_logprobs, Excludes::logprobs},
    Control{"processed logprobs", draw_processed_logprobs, Excludes::logprobs},
    Control{"support", draw_support},
    Control{"order", draw_order},
    Control{"rng", draw_rng},
};

}  // namespace

double Draws::from(double low, double high) {
    if (at_low()) return low;
    return at_high() ? high : low + (high - low) * unit();
}

double Draws::scaled(double low, double high) {
    if (at_low()) return low;
    return at_high() ? high : low * std::pow(high / low, unit());
}

std::uint32_t Draws::count(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(std::lround(scaled(low, high)));
}

std::int32_t Draws::token(const RequestSpace& space) {
    if (one_in(2)) return static_cast<std::int32_t>(below(space.vocab));
    return space.likely[below(static_cast<std::uint32_t>(space.likely.size()))];
}

std::span<const Control> all_controls() {
    return kControls;
}

}  // namespace croupier::bench
