#include "sim/request_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "request/draw.h"
#include "sampler/loops.h"
#include "sim/keyed_hash.h"
#include "testing/random_json.h"

namespace croupier::sim {
namespace {

enum KeySpace : std::uint64_t { kRequestKey = 1, kPromptKey = 2 };

enum class Kind { greedy, plain, nucleus, rare, full, fixed };

bool is_fixed(SimMix mix) {
    return mix == SimMix::fixed || mix == SimMix::fixed_temperature || mix == SimMix::fixed_top_p;
}

Kind choose_kind(SimMix mix_name, KeyedStream& random) {
    if (mix_name == SimMix::greedy) return Kind::greedy;
    if (mix_name == SimMix::plain) return Kind::plain;
    if (mix_name == SimMix::full) return Kind::full;
    if (is_fixed(mix_name)) return Kind::fixed;
    const double u = random.unit();
    if (u < 0.10) return Kind::greedy;
    if (u < 0.25) return Kind::plain;
    if (u < 0.30) return Kind::nucleus;
    if (u < 0.45) return Kind::rare;
    return Kind::full;
}

// Same parameters as the case `full` of `croupier bench decide`.
void set_fixed(SimMix mix, proto::SamplingParams& params) {
    params.temperature = 0.8;
    params.flags |= proto::kNoLogprob;
    if (mix == SimMix::fixed_temperature) return;
    params.top_p = 0.95;
    params.repetition_penalty = 1.1;
    params.frequency_penalty = 0.1;
    params.presence_penalty = 0.1;
    if (mix == SimMix::fixed_top_p) return;
    params.top_k = 50;
    params.min_p = 0.02;
}

void choose_filters(Kind kind, KeyedStream& random, proto::SamplingParams& params) {
    params.temperature = kind == Kind::greedy ? 0.0 : 0.6 + 0.6 * random.unit();
    if (kind == Kind::nucleus) params.top_p = 0.90 + 0.08 * random.unit();
    if (kind != Kind::full) return;
    params.top_k = static_cast<std::int32_t>(10 + random.below(90));
    params.top_p = 0.85 + 0.14 * random.unit();
    if (random.chance(0.5)) params.min_p = 0.01 + 0.09 * random.unit();
    if (random.chance(0.6)) params.repetition_penalty = 1.0 + 0.3 * random.unit();
    if (random.chance(0.4)) params.frequency_penalty = random.unit();
    if (random.chance(0.4)) params.presence_penalty = random.unit();
}

// Log-uniform in the square of the draw, so that most are short and a few reach the maximum.
std::uint32_t short_mostly(KeyedStream& random, std::uint32_t longest) {
    const double u = random.unit();
    const double length = std::exp(u * u * std::log(static_cast<double>(longest) + 1.0));
    return std::clamp(static_cast<std::uint32_t>(length), 1U, longest);
}

std::uint32_t log_uniform(KeyedStream& random, std::uint32_t longest) {
    const double length = std::exp(random.unit() * std::log(static_cast<double>(longest) + 1.0));
    return std::clamp(static_cast<std::uint32_t>(length), 1U, longest);
}

std::int32_t any_token(KeyedStream& random, std::uint32_t vocab) {
    return static_cast<std::int32_t>(random.below(vocab));
}

void add_constraints(Request& request, KeyedStream& random, const SimOptions& options) {
    const std::uint32_t vocab = options.vocab;
    request.masked = random.chance(0.15) && (options.plans_errors() || request.allowed_ids.empty());
    if (random.chance(0.10)) {
        for (std::uint32_t i = 1 + random.below(kMaxBiases); i > 0; --i) {
            const std::int32_t token =
                random.chance(0.5) ? request.themes[random.below(4)] : any_token(random, vocab);
            const bool known = std::any_of(request.bias.begin(), request.bias.end(),
                                           [&](const proto::TokenBias& bias) { return bias.token == token; });
            if (!known) request.bias.push_back({token, static_cast<float>(random.unit() * 12.0 - 6.0)});
        }
    }
    if (random.chance(0.15)) {
        request.stop_ids.push_back(request.themes[0]);
        for (std::uint32_t i = random.below(kMaxStops); i > 0; --i)
            request.stop_ids.push_back(any_token(random, vocab));
    }
    if (random.chance(0.15))
        request.params.min_tokens = std::min(request.params.max_tokens, 1 + random.below(16));
    if (random.chance(0.05)) request.params.flags |= proto::kIgnoreEos;
    if (options.plans_errors() && random.chance(0.005))
        request.poisoned_at = random.below(request.params.max_tokens);
}

void choose_dry(Request& request, KeyedStream& random) {
    proto::SamplingParams& params = request.params;
    params.dry_multiplier = 0.5 + 2.0 * random.unit();
    params.dry_base = 1.2 + random.unit();
    params.dry_allowed_length = static_cast<std::int32_t>(1 + random.below(2));
    if (random.chance(0.5)) params.dry_penalty_last_n = static_cast<std::int32_t>(random.below(200));
    const auto& themes = request.themes;
    if (random.chance(0.5)) request.dry_breakers = {1, themes[2], 2, themes[0], themes[1]};
}

void choose_lists(Request& request, KeyedStream& random, std::uint32_t vocab) {
    const auto& themes = request.themes;
    if (random.chance(0.5)) {
        request.bad_words = {1, themes[0], 2, themes[1], themes[2]};
        return;
    }
    request.allowed_ids.assign(themes.begin(), themes.end());
    while (request.allowed_ids.size() < kMaxListWords / 2)
        request.allowed_ids.push_back(any_token(random, vocab));
}

void choose_feedback(KeyedStream& random, proto::SamplingParams& params) {
    if (random.chance(0.3)) {
        params.adaptive_target = 0.1 + 0.8 * random.unit();
        params.adaptive_decay = 0.9 * random.unit();
        return;
    }
    params.mirostat = random.chance(0.3) ? 1 : 2;
    params.mirostat_tau = 2.0 + 4.0 * random.unit();
    params.mirostat_eta = 0.05 + 0.3 * random.unit();
}

void choose_own_order(KeyedStream& random, proto::SamplingParams& params) {
    using proto::Step;
    params.top_p = 0.85 + 0.14 * random.unit();
    params.min_p = 0.02 * random.unit();
    params.frequency_penalty = random.unit();
    params.penalty_last_n = static_cast<std::int32_t>(random.below(64));
    params.dynatemp_range = 0.5 * random.unit();
    params.order = {Step::top_p, Step::penalties, Step::temperature, Step::min_p};
    params.logprob_mode = proto::LogprobMode::processed;
}

// Rare controls, at most one per request.
void choose_rare(Request& request, KeyedStream& random, const SimOptions& options) {
    proto::SamplingParams& params = request.params;
    switch (random.below(8)) {
        case 0:
            params.typical_p = 0.5 + 0.49 * random.unit();
            break;
        case 1:
            params.xtc_probability = random.unit();
            params.xtc_threshold = 0.01 + 0.1 * random.unit();
            break;
        case 2:
            params.top_n_sigma = 0.5 + 3.0 * random.unit();
            break;
        case 3:
            choose_dry(request, random);
            break;
        case 4:
            choose_lists(request, random, options.vocab);
            break;
        case 5:
            choose_feedback(random, params);
            break;
        case 6:
            params.rng = static_cast<proto::Rng>(1 + random.below(3));
            // Hot sets belong to rows.
            if (options.transport == Transport::lean && params.rng == proto::Rng::shvs)
                params.rng = proto::Rng::race;
            break;
        default:
            choose_own_order(random, params);
            break;
    }
}

// Most tokens of small_alphabet_pieces() are some letters, so that these are found after some dozens.
std::string make_stop(KeyedStream& random) {
    static const std::array<std::string, 6> kParts = {"a", "b", "c", "d", "\u20AC", "\uFFFD"};
    std::string stop;
    const bool has_all = random.chance(0.3);
    for (std::uint32_t size = 3 + random.below(8); size > 0; --size)
        stop += kParts[has_all && random.chance(0.3) ? random.below(6) : random.below(2)];
    return stop;
}

// The end of one token that recurs in the request and the beginning of another one, of their letters.
std::string stop_between(const Request& request, KeyedStream& random) {
    const auto letters = [&] {
        std::string piece =
            testing::small_alphabet_piece(static_cast<std::uint32_t>(request.themes[random.below(kThemes)]));
        std::erase_if(piece, [](char byte) { return byte < 'a' || byte > 'd'; });
        return piece;
    };
    const std::string end = letters();
    const std::string begin = letters();
    return end.substr(end.size() - std::min<std::size_t>(end.size(), 1 + random.below(5))) +
           begin.substr(0, random.below(5));
}

bool is_json_token(std::uint32_t id) {
    return id * 0x9E3779B9U >> 30U == 3;
}

void add_json(const SimOptions& options, Request& request, KeyedStream& random) {
    request.params.flags |= proto::kStopAtJson;
    for (std::uint32_t i = 0; i < kThemes; ++i) {
        for (int draws = 0; draws < 50 && !is_json_token(static_cast<std::uint32_t>(request.themes[i]));
             ++draws) {
            request.theme_numbers[i] = random.below(raised_tokens(options.vocab));
            request.themes[i] = raised_token(options.vocab, request.theme_numbers[i]);
        }
    }
}

void add_loop(proto::SamplingParams& params, KeyedStream& random) {
    params.loop_max_period = static_cast<std::uint16_t>(1 + random.below(6));
    params.loop_min_period = static_cast<std::uint16_t>(random.below(params.loop_max_period + 1U));
    params.loop_count = static_cast<std::uint8_t>(2 + random.below(2));
}

void add_stops(const SimOptions& options, Request& request, KeyedStream& random) {
    if (random.chance(0.5)) {
        if (random.chance(0.6)) add_json(options, request, random);
        if (random.chance(0.7)) add_loop(request.params, random);
        // Few tokens, so that texts are JSON, and repeat.
        if (!request.masked && request.allowed_ids.empty() && request.bad_words.empty())
            request.allowed_ids.assign(request.themes.begin(), request.themes.end());
    }
    if (random.chance(0.3)) return;
    request.stop_strings.resize(1 + random.below(random.chance(0.3) ? 16 : 4));
    for (std::string& stop : request.stop_strings) {
        if (random.chance(0.3)) stop = stop_between(request, random);
        if (stop.empty()) stop = make_stop(random);
    }
    // Beginnings and ends of one another.
    auto& stops = request.stop_strings;
    if (stops.size() > 1 && random.chance(0.5)) stops[0] = stops[1] + "a";
    if (stops.size() > 2 && random.chance(0.5)) stops[0] = "b" + stops[2];
    if (random.chance(0.3)) request.params.flags |= proto::kIncludeStop;
}

Request make_request(const SimOptions& options, std::uint32_t index) {
    KeyedStream random(key_of(options.seed, kRequestKey, index));
    Request request;
    request.index = index;
    for (std::uint32_t i = 0; i < kThemes; ++i) {
        request.theme_numbers[i] = random.below(raised_tokens(options.vocab));
        request.themes[i] = raised_token(options.vocab, request.theme_numbers[i]);
    }
    const Kind kind = choose_kind(options.mix, random);
    if (is_fixed(options.mix)) {
        set_fixed(options.mix, request.params);
    } else {
        choose_filters(kind, random, request.params);
    }
    if (kind == Kind::rare) choose_rare(request, random, options);
    request.params.seed = random.next();
    if (random.chance(0.2))
        request.params = request::params_of_child(request.params, 1 + random.below(kMostSiblings));
    request.params.eos_token_id = static_cast<std::int32_t>(options.vocab - 1);
    const bool fixed = kind == Kind::fixed;
    if (fixed) request.params.flags |= proto::kIgnoreEos;
    request.params.max_tokens = fixed ? options.output_max : log_uniform(random, options.output_max);
    request.prompt_length = short_mostly(random, options.prompt_max);
    if (options.mix == SimMix::mixed) add_constraints(request, random, options);
    request.masked = request.masked || options.masked;
    if (options.stops) add_stops(options, request, random);
    return request;
}

}  // namespace

bool Request::ends_with(std::span<const std::int32_t> output) const {
    const std::int32_t token = output.back();
    const bool eos = token == params.eos_token_id && (params.flags & proto::kIgnoreEos) == 0;
    const bool stop = std::find(stop_ids.begin(), stop_ids.end(), token) != stop_ids.end();
    if (eos || stop || output.size() >= params.max_tokens) return true;
    return params.loop_max_period > 0 && output.size() > params.min_tokens &&
           sampler::completes_loop(params, output.first(output.size() - 1), token);
}

testing::Pieces text_pieces(std::uint32_t ids) {
    testing::Pieces pieces = testing::small_alphabet_pieces(ids);
    const testing::Pieces json = testing::json_pieces(ids);
    std::set<std::string> known;
    std::size_t next = 0;
    for (std::uint32_t id = 0; id < ids; ++id) {
        if (is_json_token(id)) pieces[id] = json[next++];
        if (!known.insert(pieces[id]).second) pieces[id].clear();
    }
    return pieces;
}

RequestPlan::RequestPlan(const SimOptions& options) : seed_(options.seed), vocab_(options.vocab) {
    const std::uint64_t budget = std::uint64_t{options.steps} * options.batch;
    KeyedStream arrivals(key_of(options.seed, kRequestKey));
    double arrival = 0.0;
    while (most_tokens_ < budget) {
        requests_.push_back(make_request(options, size()));
        Request& request = requests_.back();
        if (options.arrival_rate > 0.0) arrival -= std::log1p(-arrivals.unit()) / options.arrival_rate;
        request.arrival_s = arrival;
        most_tokens_ += request.params.max_tokens;
        longest_ = std::max(longest_, request.prompt_length + request.params.max_tokens);
    }
}

std::int32_t RequestPlan::prompt_token(std::uint32_t index, std::uint32_t place) const {
    KeyedStream random(key_of(seed_, kPromptKey, index, place));
    const Request& request = requests_[index];
    if (random.chance(0.1)) return request.themes[random.below(4)];
    // The third power prefers common tokens, which repeat as in text.
    const double u = random.unit();
    return static_cast<std::int32_t>(u * u * u * static_cast<double>(vocab_));
}

std::vector<std::int32_t> RequestPlan::prompt(std::uint32_t index) const {
    std::vector<std::int32_t> tokens(requests_[index].prompt_length);
    for (std::uint32_t place = 0; place < tokens.size(); ++place) tokens[place] = prompt_token(index, place);
    return tokens;
}

}  // namespace croupier::sim
