#include "tools/decide/params.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace croupier::tools {
namespace {

using proto::SamplingParams;

template <typename Value>
struct Named {
    const char* name;
    Value SamplingParams::*member;
};

constexpr std::array kReals = {
    Named<double>{"temperature", &SamplingParams::temperature},
    Named<double>{"top_p", &SamplingParams::top_p},
    Named<double>{"min_p", &SamplingParams::min_p},
    Named<double>{"repetition_penalty", &SamplingParams::repetition_penalty},
    Named<double>{"frequency_penalty", &SamplingParams::frequency_penalty},
    Named<double>{"presence_penalty", &SamplingParams::presence_penalty},
    Named<double>{"dynatemp_range", &SamplingParams::dynatemp_range},
    Named<double>{"dynatemp_exponent", &SamplingParams::dynatemp_exponent},
    Named<double>{"top_n_sigma", &SamplingParams::top_n_sigma},
    Named<double>{"typical_p", &SamplingParams::typical_p},
    Named<double>{"xtc_probability", &SamplingParams::xtc_probability},
    Named<double>{"xtc_threshold", &SamplingParams::xtc_threshold},
    Named<double>{"dry_multiplier", &SamplingParams::dry_multiplier},
    Named<double>{"dry_base", &SamplingParams::dry_base},
    Named<double>{"mirostat_tau", &SamplingParams::mirostat_tau},
    Named<double>{"mirostat_eta", &SamplingParams::mirostat_eta},
    Named<double>{"adaptive_target", &SamplingParams::adaptive_target},
    Named<double>{"adaptive_decay", &SamplingParams::adaptive_decay},
};

constexpr std::array kSigned = {
    Named<std::int32_t>{"top_k", &SamplingParams::top_k},
    Named<std::int32_t>{"eos_token_id", &SamplingParams::eos_token_id},
    Named<std::int32_t>{"penalty_last_n", &SamplingParams::penalty_last_n},
    Named<std::int32_t>{"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n},
    Named<std::int32_t>{"dry_allowed_length", &SamplingParams::dry_allowed_length},
};

constexpr std::array kUnsigned = {
    Named<std::uint32_t>{"child", &SamplingParams::child},
    Named<std::uint32_t>{"min_tokens", &SamplingParams::min_tokens},
    Named<std::uint32_t>{"max_tokens", &SamplingParams::max_tokens},
};

const std::vector<std::string>& known_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all = {"seed",           "n",
                                        "mirostat",       "rng",
                                        "logprobs_mode",  "ignore_eos",
                                        "order",          "logit_bias",
                                        "stop_token_ids", "allowed_token_ids",
                                        "bad_words",      "dry_sequence_breakers"};
        for (const auto& each : kReals) all.emplace_back(each.name);
        for (const auto& each : kSigned) all.emplace_back(each.name);
        for (const auto& each : kUnsigned) all.emplace_back(each.name);
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
        throw RequestError(where + " is " + shown(value) + ", which is no step" + suggestion(name, names));
    }
    return static_cast<proto::Step>(found - names.begin() + 1);
}

// Names that were there before are told apart from mistakes: their author should learn what draws instead.
proto::Rng read_rng(const Fields& fields) {
    if (const Json* name = fields.find("rng"); name != nullptr && (*name == "philox" || *name == "gumbel")) {
        throw RequestError("params.rng is " + shown(*name) +
                           ", which \"race\", the default, has replaced; allowed: one of race, shvs, "
                           "sglang, vllm");
    }
    return static_cast<proto::Rng>(fields.choice("rng", {"race", "shvs", "sglang", "vllm"}, 0));
}

// An empty list is the default order to the sampler; to its author it would be no step at all.
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
            throw RequestError(where + " is " + shown(value[i]) + " again; each step may stand there once");
        }
    }
    return order;
}

std::vector<proto::TokenBias> read_bias(const Json& object) {
    if (!object.is_object()) {
        throw RequestError("params.logit_bias is " + shown(object) +
                           R"(; allowed: an object of biases by token id, as {"42": -1.5})");
    }
    std::vector<proto::TokenBias> bias;
    for (const auto& [key, value] : object.items()) {
        std::int32_t token = -1;
        const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (fault != std::errc{} || std::to_string(token) != key) {
            throw RequestError("params.logit_bias has the key " + shown(key) +
                               ", which is no token id; allowed: whole numbers as texts");
        }
        const double amount = real_of("params.logit_bias." + key, value);
        bias.push_back({token, static_cast<float>(std::clamp(amount, -1e30, 1e30))});
    }
    std::sort(bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
    return bias;
}

}  // namespace

const std::vector<std::string>& step_names() {
    static const std::vector<std::string> names = {
        "penalties", "dry", "top_n_sigma", "temperature", "min_p", "top_k", "top_p", "typical_p", "xtc"};
    return names;
}

Params read_params(const Json& object) {
    const Fields fields(object, "params.", known_names());
    Params params;
    SamplingParams& sampling = params.sampling;
    for (const auto& each : kReals) {
        sampling.*each.member = fields.real(each.name, sampling.*each.member);
    }
    for (const auto& each : kSigned) {
        sampling.*each.member = fields.whole(each.name, sampling.*each.member);
    }
    for (const auto& each : kUnsigned) {
        sampling.*each.member = fields.whole(each.name, sampling.*each.member);
    }
    sampling.seed = fields.whole("seed", sampling.seed);
    sampling.mirostat = fields.whole("mirostat", sampling.mirostat);
    sampling.rng = read_rng(fields);
    sampling.logprob_mode =
        static_cast<proto::LogprobMode>(fields.choice("logprobs_mode", {"raw", "processed"}, 0));
    if (fields.boolean("ignore_eos", false)) sampling.flags |= proto::kIgnoreEos;
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

}  // namespace croupier::tools
