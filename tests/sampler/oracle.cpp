#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sampler/exp.h"

namespace croupier::sampler::test {
namespace {

using proto::DecisionError;
using proto::SamplingParams;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

std::size_t index_of(std::int32_t token) {
    return static_cast<std::size_t>(token);
}

std::vector<double> masked(const std::vector<float>& logits, std::span<const std::uint32_t> mask) {
    std::vector<double> result(logits.begin(), logits.end());
    if (mask.empty()) return result;
    for (std::size_t token = 0; token < result.size(); ++token) {
        if ((mask[token / 32] >> (token % 32) & 1U) == 0) result[token] = kNothing;
    }
    return result;
}

void penalise(std::vector<double>& logits, const Request& request) {
    const SamplingParams& params = *request.params;
    std::set<std::int32_t> seen(request.prompt.begin(), request.prompt.end());
    seen.insert(request.output.begin(), request.output.end());
    std::map<std::int32_t, int> outputs;
    for (const std::int32_t token : request.output) ++outputs[token];
    for (const std::int32_t token : seen) {
        double& x = logits[index_of(token)];
        x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
    }
    for (const auto& [token, count] : outputs) logits[index_of(token)] -= params.frequency_penalty * count;
    for (const auto& [token, count] : outputs) logits[index_of(token)] -= params.presence_penalty;
}

// Per survivor, the masses before and after it.
struct Span {
    double before;
    double after;
};

std::vector<Span> spans_of(const std::vector<Weighted>& tokens, double& total) {
    std::vector<Span> spans;
    double base = 0.0;
    for (std::size_t begin = 0; begin < tokens.size();) {
        std::size_t end = begin;
        while (end < tokens.size() && tokens[end].logit == tokens[begin].logit) ++end;
        const double weight = tokens[begin].weight;
        for (std::size_t j = 0; j < end - begin; ++j) {
            spans.push_back(
                {base + static_cast<double>(j) * weight, base + static_cast<double>(j + 1) * weight});
        }
        base = spans.back().after;
        begin = end;
    }
    total = base;
    return spans;
}

double block_mass(const std::vector<double>& in_order, std::size_t block, double maximum, double scale) {
    double lanes[8] = {};
    for (std::size_t i = 0; i < 64 && block * 64 + i < in_order.size(); ++i) {
        lanes[i % 8] += exp_nonpositive((in_order[block * 64 + i] - maximum) * scale);
    }
    double sum = 0.0;
    for (const double lane : lanes) sum += lane;
    return sum;
}

std::vector<double> in_order(const std::vector<double>& by_token, const std::vector<std::int32_t>& order) {
    std::vector<double> result;
    for (const std::int32_t token : order) result.push_back(by_token[index_of(token)]);
    return result;
}

std::vector<double> block_masses(const std::vector<double>& ordered, double maximum, double scale) {
    std::vector<double> result;
    for (std::size_t block = 0; block * 64 < ordered.size(); ++block) {
        result.push_back(block_mass(ordered, block, maximum, scale));
    }
    return result;
}

double sequential_sum(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return sum;
}

double uniform(std::uint32_t random) {
    return (random + 0.5) / 4294967296.0;
}

double temperature_scale(const SamplingParams& params) {
    return 1.0 / std::max(params.temperature, 0.01);
}

std::int32_t draw_from_all(const std::vector<double>& adjusted, const std::vector<std::int32_t>& order,
                           const Request& request) {
    const std::vector<double> ordered = in_order(adjusted, order);
    const double maximum = *std::max_element(ordered.begin(), ordered.end());
    const double scale = temperature_scale(*request.params);
    const std::vector<double> masses = block_masses(ordered, maximum, scale);
    const double target = uniform(request.random) * sequential_sum(masses);
    double before = 0.0;
    std::size_t block = 0;
    while (before + masses[block] <= target) before += masses[block++];
    std::size_t last = 0;
    for (std::size_t i = block * 64; i < std::min(block * 64 + 64, ordered.size()); ++i) {
        const double weight = exp_nonpositive((ordered[i] - maximum) * scale);
        if (weight > 0) last = i;
        before += weight;
        if (before > target) return order[i];
    }
    return order[last];
}

std::int32_t draw_from_survivors(const std::vector<Weighted>& survivors, std::uint32_t random) {
    double total = 0.0;
    const std::vector<Span> spans = spans_of(survivors, total);
    for (std::size_t i = 0; i < survivors.size(); ++i) {
        if (spans[i].after > uniform(random) * total) return survivors[i].token;
    }
    return survivors.back().token;
}

std::uint16_t stop_of(const Request& request, std::int32_t token) {
    const SamplingParams& params = *request.params;
    if (token == params.eos_token_id && params.flags != proto::kIgnoreEos) return proto::kStoppedByEos;
    if (std::count(request.stop_ids.begin(), request.stop_ids.end(), token) > 0)
        return proto::kStoppedByToken;
    const std::size_t outputs = request.output.size() + 1;
    if (params.max_tokens > 0 && outputs >= params.max_tokens) return proto::kStoppedByLength;
    if (request.prompt.size() + outputs >= request.max_length) return proto::kStoppedByLength;
    return 0;
}

}  // namespace

std::vector<double> oracle_adjusted(const std::vector<float>& logits, const Request& request) {
    const SamplingParams& params = *request.params;
    std::vector<double> result = masked(logits, request.mask);
    if (request.output.size() < params.min_tokens) {
        if (params.eos_token_id >= 0) result[index_of(params.eos_token_id)] = kNothing;
        for (const std::int32_t token : request.stop_ids) result[index_of(token)] = kNothing;
    }
    for (const proto::TokenBias& bias : request.bias) {
        result[index_of(bias.token)] += static_cast<double>(bias.bias);
    }
    penalise(result, request);
    return result;
}

std::vector<Weighted> oracle_survivors(const std::vector<double>& adjusted, const SamplingParams& params) {
    const double maximum = *std::max_element(adjusted.begin(), adjusted.end());
    std::vector<Weighted> tokens;
    for (std::size_t token = 0; token < adjusted.size(); ++token) {
        if (adjusted[token] == kNothing) continue;
        const double weight = exp_nonpositive((adjusted[token] - maximum) * temperature_scale(params));
        if (weight >= params.min_p)
            tokens.push_back({adjusted[token], static_cast<std::int32_t>(token), weight});
    }
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const Weighted& a, const Weighted& b) { return a.logit > b.logit; });
    if (params.top_k > 0 && tokens.size() > static_cast<std::size_t>(params.top_k)) {
        tokens.resize(static_cast<std::size_t>(params.top_k));
    }
    if (params.top_p < 1.0) {
        double total = 0.0;
        const std::vector<Span> spans = spans_of(tokens, total);
        std::vector<Weighted> kept;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (spans[i].before < params.top_p * total) kept.push_back(tokens[i]);
        }
        tokens = kept;
    }
    return tokens;
}

proto::Decision oracle_decision(const std::vector<float>& logits, const std::vector<std::int32_t>& order,
                                const Request& request) {
    const SamplingParams& params = *request.params;
    proto::Decision decision;
    decision.position = static_cast<std::uint32_t>(request.output.size());
    const std::vector<double> raw = masked(logits, request.mask);
    const std::vector<double> adjusted = oracle_adjusted(logits, request);
    if (*std::max_element(adjusted.begin(), adjusted.end()) == kNothing) {
        decision.error = DecisionError::no_token_left;
        return decision;
    }
    if (params.temperature < 1e-5) {
        decision.flags = proto::kGreedy;
        const auto first = std::max_element(adjusted.begin(), adjusted.end());
        decision.token = static_cast<std::int32_t>(first - adjusted.begin());
    } else if (params.top_k > 0 || params.top_p < 1.0 || params.min_p > 0.0) {
        decision.flags = proto::kTruncated;
        decision.token = draw_from_survivors(oracle_survivors(adjusted, params), request.random);
    } else {
        decision.token = draw_from_all(adjusted, order, request);
    }
    const double maximum = *std::max_element(raw.begin(), raw.end());
    const double mass = sequential_sum(block_masses(in_order(raw, order), maximum, 1.0));
    decision.logprob = static_cast<float>((raw[index_of(decision.token)] - maximum) - std::log(mass));
    decision.flags = static_cast<std::uint16_t>(decision.flags | stop_of(request, decision.token));
    return decision;
}

}  // namespace croupier::sampler::test
