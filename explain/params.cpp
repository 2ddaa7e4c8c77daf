#include "explain/params.h"

#include <algorithm>
#include <charconv>

#include "proto/sampling.h"

namespace croupier::explain {
namespace {

using proto::SamplingParams;

const std::vector<std::string>& known_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all = {"n",
                                        "order",
                                        "logit_bias",
                                        "stop_token_ids",
                                        "allowed_token_ids",
                                        "bad_words",
                                        "dry_sequence_breakers"};
        for (const proto::FlagName& each : proto::kParameterFlagNames) all.emplace_back(each.name);
        proto::for_each_sampling_field([&](const auto& field) {
            if (field.key != nullptr) all.emplace_back(field.key);
        });
        return all;
    }();
    return names;
}

proto::Step step_of(const std::string& where, const Json& value) {
    const auto& names = step_names();
    const std::string name = !value.is_string() ? ""
                             : value == "typ_p" ? "typical_p"
                                                : value.get<std::string>();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
        throw RequestError(where + " is " + shown(value) + ", which is not a step" + suggestion(name, names));
    }
    return static_cast<proto::Step>(found - names.begin() + 1);
}

void read_value(const Fields& fields, const char* key, double& value) {
    value = fields.real(key, value);
}

template <typename Whole>
void read_value(const Fields& fields, const char* key, Whole& value) {
    value = fields.whole(key, value);
}

// Former names get a message of their own, which names the replacement.
void read_value(const Fields& fields, const char* key, proto::Rng& value) {
    if (const Json* name = fields.find(key); name != nullptr && (*name == "philox" || *name == "gumbel")) {
        throw RequestError(
            fields.path(key) + " is " + shown(*name) +
            ", which was replaced by the default, \"race\"; allowed: race, shvs, sglang, vllm");
    }
    value = static_cast<proto::Rng>(fields.choice(key, rng_names(), static_cast<std::size_t>(value)));
}

void read_value(const Fields& fields, const char* key, proto::LogprobMode& value) {
    value = static_cast<proto::LogprobMode>(
        fields.choice(key, logprob_mode_names(), static_cast<std::size_t>(value)));
}

// Refused, because the sampler treats an empty list as the default order, while its author may mean no steps.
proto::StepOrder read_order(const Json& value) {
    if (!value.is_array() || value.empty() || value.size() >= proto::kOrderSteps) {
        throw RequestError("params.order is " + shown(value) + "; allowed: a list of 1 to " +
                           std::to_string(proto::kOrderSteps - 1) +
                           " steps, each at most once; leave it out for the default order");
    }
    proto::StepOrder order{};
    for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string where = "params.order[" + std::to_string(i) + "]";
        order[i] = step_of(where, value[i]);
        if (std::count(order.begin(), order.end(), order[i]) > 1) {
            throw RequestError(where + " is " + shown(value[i]) + " again; each step may occur once");
        }
    }
    return order;
}

float bias_of(const std::string& where, const Json& value) {
    return static_cast<float>(std::clamp(real_of(where, value), -1e30, 1e30));
}

std::vector<proto::TokenBias> bias_by_id(const Json& object) {
    std::vector<proto::TokenBias> bias;
    for (const auto& [key, value] : object.items()) {
        std::int32_t token = -1;
        const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (fault != std::errc{} || std::to_string(token) != key) {
            throw RequestError("params.logit_bias has the key " + shown(key) +
                               ", which is not a token id; allowed: whole numbers as strings");
        }
        bias.push_back({token, bias_of("params.logit_bias." + key, value)});
    }
    std::sort(bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
    return bias;
}

// A token may have several biases, which are added in this order.
std::vector<proto::TokenBias> bias_in_order(const Json& list) {
    std::vector<proto::TokenBias> bias;
    for (const Json& pair : list) {
        const std::string where = "params.logit_bias[" + std::to_string(bias.size()) + "]";
        if (!pair.is_array() || pair.size() != 2) {
            throw RequestError(where + " is " + shown(pair) + "; allowed: [id, bias]");
        }
        const auto token = static_cast<std::int32_t>(whole_of(where + "[0]", pair[0], kAllOf<std::int32_t>));
        bias.push_back({token, bias_of(where + "[1]", pair[1])});
    }
    return bias;
}

std::vector<proto::TokenBias> read_bias(const Json& value) {
    if (value.is_array()) return bias_in_order(value);
    if (value.is_object()) return bias_by_id(value);
    throw RequestError(
        "params.logit_bias is " + shown(value) +
        R"(; allowed: an object of biases by token id, as {"42": -1.5}, or a list of [id, bias])");
}

}  // namespace

const std::vector<std::string>& step_names() {
    static const std::vector<std::string> names(proto::kStepNames.begin(), proto::kStepNames.end());
    return names;
}

const std::vector<std::string>& rng_names() {
    static const std::vector<std::string> names(proto::kRngNames.begin(), proto::kRngNames.end());
    return names;
}

const std::vector<std::string>& logprob_mode_names() {
    static const std::vector<std::string> names(proto::kLogprobModeNames.begin(),
                                                proto::kLogprobModeNames.end());
    return names;
}

Params read_params(const Json& object) {
    const Fields fields(object, "params.", known_names());
    Params params;
    SamplingParams& sampling = params.sampling;
    proto::for_each_sampling_field([&](const auto& field) {
        if (field.key != nullptr) read_value(fields, field.key, sampling.*field.member);
    });
    for (const proto::FlagName& each : proto::kParameterFlagNames) {
        if (fields.boolean(each.name, false)) sampling.flags |= each.flag;
    }
    if (const Json* order = fields.find("order")) sampling.order = read_order(*order);
    if (const Json* bias = fields.find("logit_bias")) params.bias = read_bias(*bias);
    params.children = fields.whole("n", 1U, {1, proto::kMostChildren});
    params.stop_ids = fields.ids("stop_token_ids");
    params.allowed_ids = fields.ids("allowed_token_ids");
    if (fields.has("allowed_token_ids") && params.allowed_ids.empty()) {
        throw RequestError("params.allowed_token_ids is empty; leave it out to allow every token");
    }
    params.bad_words = fields.id_lists("bad_words");
    params.dry_breakers = fields.id_lists("dry_sequence_breakers");
    return params;
}

}  // namespace croupier::explain
