#include "explain/case.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "explain/target.h"
#include "proto/geometry.h"
#include "proto/hot_set.h"
#include "proto/philox.h"
#include "request/draw.h"

namespace croupier::explain {
namespace {

constexpr std::uint32_t kMaxDraws = 1'000'000;
// Positions have 32 bits, including that of the last draw.
constexpr std::uint32_t kMaxPosition = std::numeric_limits<std::uint32_t>::max() - kMaxDraws;

const std::vector<std::string>& known_keys() {
    static const std::vector<std::string> names = {
        "logits",  "row",          "dtype",        "tile",        "ranks",   "params",     "prompt",
        "output",  "seed",         "position",     "draws",       "support", "logprobs",   "mask",
        "impl",    "target",       "feedback",     "max_length",  "hot",     "hot_blocks", "random",
        "decided", "stop_strings", "keep_special", "stop_at_json"};
    return names;
}

const Json& object_at(const Fields& fields, const std::string& key) {
    static const Json nothing = Json::object();
    const Json* value = fields.find(key);
    if (value == nullptr) return nothing;
    if (!value->is_object()) throw RequestError(key + " is " + shown(*value) + "; allowed: an object");
    return *value;
}

RowShape read_shape(const Fields& fields, std::uint32_t vocab, std::size_t dtype) {
    RowShape shape;
    shape.dtype = static_cast<proto::Dtype>(dtype);
    shape.vocab = vocab;
    shape.ranks = fields.whole("ranks", 1U, {1, std::min(proto::kMaxTp, vocab)});
    shape.tile = fields.whole("tile", 64U, {1, proto::kBlockIds});
    if (shape.tile != 1 && shape.tile != proto::kBlockIds)
        throw RequestError("tile is " + std::to_string(shape.tile) + "; allowed: 1 or " +
                           std::to_string(proto::kBlockIds));
    return shape;
}

Row row_of_logits(const Fields& fields, const Json& logits) {
    if (!logits.is_array() || logits.empty() || logits.size() > proto::kMaxVocab) {
        throw RequestError("logits is " + shown(logits) + "; allowed: a list of 1 to " +
                           std::to_string(proto::kMaxVocab) + " numbers");
    }
    const RowShape shape = read_shape(fields, static_cast<std::uint32_t>(logits.size()),
                                      fields.choice("dtype", dtype_names(), 2));
    const std::size_t bytes = proto::element_bytes(shape.dtype);
    std::vector<std::byte> elements(logits.size() * bytes);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double value = logits[i].is_null() ? -std::numeric_limits<double>::infinity()
                                                 : real_of("logits[" + std::to_string(i) + "]", logits[i]);
        const std::uint32_t bits = encode(value, shape.dtype);
        for (std::size_t b = 0; b < bytes; ++b)
            elements[i * bytes + b] = static_cast<std::byte>(bits >> 8 * b);
    }
    return {shape, elements};
}

Row row_of_file(const Fields& fields, RowFiles& files) {
    if (fields.has("dtype")) throw RequestError("dtype is for logits; with row, use row.dtype");
    const Fields row(object_at(fields, "row"), "row.", {"file", "dtype", "vocab", "index"});
    for (const char* needed : {"file", "dtype", "vocab"}) {
        if (!row.has(needed)) {
            throw RequestError(row.path(needed) +
                               R"( is missing; a row is {"file": "rows.bf16", "dtype": "bf16", )"
                               R"("vocab": 151936, "index": 0})");
        }
    }
    const auto vocab = row.whole("vocab", 1U, {1, proto::kMaxVocab});
    const RowShape shape = read_shape(fields, vocab, row.choice("dtype", dtype_names(), 0));
    const std::uint64_t bytes = std::uint64_t{vocab} * proto::element_bytes(shape.dtype);
    return {shape, files.row(row.text("file", ""), bytes, row.whole("index", std::uint64_t{0}))};
}

Row read_row(const Fields& fields, RowFiles& files) {
    const Json* logits = fields.find("logits");
    if ((logits != nullptr) == fields.has("row")) {
        throw RequestError("a request has either logits (a list of numbers) or row (a row of a file)");
    }
    return logits != nullptr ? row_of_logits(fields, *logits) : row_of_file(fields, files);
}

std::vector<std::uint32_t> read_mask(const Fields& fields, std::uint32_t vocab) {
    std::vector<std::uint32_t> mask;
    const Json* words = fields.find("mask");
    if (words == nullptr) return mask;
    const std::size_t needed = (vocab + 31) / 32;
    if (!words->is_array() || words->size() != needed) {
        throw RequestError("mask is " + shown(*words) + "; allowed: a list of " + std::to_string(needed) +
                           " words of 32 bits, for " + std::to_string(vocab) + " ids");
    }
    constexpr WholeRange kEitherSign = {std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::uint32_t>::max()};
    for (const Json& word : *words) {
        const std::string where = "mask[" + std::to_string(mask.size()) + "]";
        mask.push_back(static_cast<std::uint32_t>(whole_of(where, word, kEitherSign)));
    }
    return mask;
}

void read_history(const Fields& fields, Case& result) {
    result.prompt = fields.ids("prompt");
    result.output = fields.ids("output");
    const std::uint64_t history = result.prompt.size() + result.output.size();
    // By default the sequence has room for another token, so that the decision does not end it.
    const std::uint64_t room = fields.has("max_length") ? 1 : 2;
    if (history + room > proto::kMaxLength) {
        throw RequestError("prompt and output have " + std::to_string(history) + " ids; allowed: up to " +
                           std::to_string(proto::kMaxLength - room));
    }
    result.max_length =
        fields.whole("max_length", static_cast<std::uint32_t>(history) + 2, {2, proto::kMaxLength});
    const auto next = static_cast<std::uint32_t>(history);
    result.position = fields.whole("position", next, {next, kMaxPosition});
}

// As with an identity order: the lowest blocks are hot.
std::vector<std::uint32_t> lowest_blocks(std::uint32_t hot) {
    std::vector<std::uint32_t> blocks(proto::blocks_of(hot));
    std::iota(blocks.begin(), blocks.end(), 0U);
    return blocks;
}

std::vector<std::uint32_t> read_hot(const Fields& fields, const Row& row) {
    const auto hot = fields.whole("hot", 0U, {0, row.vocab()});
    const Json* list = fields.find("hot_blocks");
    if (list == nullptr) return lowest_blocks(hot);
    if (hot != 0) throw RequestError("a request has either hot (a number of lowest ids) or hot_blocks");
    const std::uint32_t all = proto::blocks_of(row.vocab());
    if (!list->is_array() || list->empty() || list->size() > all) {
        throw RequestError("hot_blocks is " + shown(*list) + "; allowed: a list of 1 to " +
                           std::to_string(all) + " blocks of 64 ids");
    }
    std::vector<std::uint32_t> blocks;
    std::vector<bool> seen(all);
    for (const Json& block : *list) {
        const std::string where = "hot_blocks[" + std::to_string(blocks.size()) + "]";
        blocks.push_back(static_cast<std::uint32_t>(whole_of(where, block, {0, all - 1})));
        if (seen[blocks.back()]) throw RequestError(where + " is " + shown(block) + " again");
        seen[blocks.back()] = true;
    }
    return blocks;
}

// It applies to one decision only; others need other randoms.
std::optional<std::uint32_t> read_random(const Fields& fields, const Case& of) {
    if (!fields.has("random")) return std::nullopt;
    if (of.draws > 1 || of.params.children > 1) {
        throw RequestError(
            "random is for a single decision, but this request has several (draws or params.n)");
    }
    return fields.whole("random", 0U);
}

std::vector<std::string> read_stop_strings(const Fields& fields) {
    std::vector<std::string> stops;
    const Json* list = fields.find("stop_strings");
    if (list == nullptr) return stops;
    if (!list->is_array() || list->size() > proto::kMaxStopStrings) {
        throw RequestError("stop_strings is " + shown(*list) + "; allowed: a list of up to " +
                           std::to_string(proto::kMaxStopStrings) + " strings");
    }
    for (const Json& stop : *list) {
        const bool is_one = stop.is_string() && !stop.get_ref<const std::string&>().empty() &&
                            stop.get_ref<const std::string&>().size() <= proto::kMaxStopStringBytes;
        if (!is_one) {
            throw RequestError("stop_strings[" + std::to_string(stops.size()) + "] is " + shown(stop) +
                               "; allowed: a string of 1 to " + std::to_string(proto::kMaxStopStringBytes) +
                               " bytes");
        }
        stops.push_back(stop.get<std::string>());
    }
    return stops;
}

std::optional<Decided> read_decided(const Fields& fields) {
    if (!fields.has("decided")) return std::nullopt;
    const Fields decided(object_at(fields, "decided"), "decided.", {"step", "token", "path"});
    return Decided{decided.whole("step", std::uint64_t{0}),
                   decided.whole("token", -1, {-1, proto::kMaxVocab - 1}), decided.text("path", "")};
}

proto::Feedback read_feedback(const Fields& fields) {
    const Fields feedback(object_at(fields, "feedback"), "feedback.", {"level", "weight"});
    return {.level = feedback.real("level", 0.0), .weight = feedback.real("weight", 0.0)};
}

}  // namespace

const std::vector<std::string>& dtype_names() {
    static const std::vector<std::string> names = {"bf16", "fp16", "fp32"};
    return names;
}

Json parse_json(std::string_view text) {
    try {
        return Json::parse(text);
    } catch (const Json::exception& error) {
        const std::string_view what = error.what();
        // Removes the library's prefix "[json.exception.parse_error.101] ".
        throw RequestError("not JSON: " + std::string(what.substr(what.find("] ") + 2)));
    }
}

Case read_case(const Json& request, RowFiles& files) {
    if (!request.is_object()) {
        throw RequestError("a request is an object, as {\"logits\": [1, 2, 3]}; this is " + shown(request));
    }
    const Fields fields(request, "", known_keys());
    Case result;
    result.row = read_row(fields, files);
    result.params = read_params(object_at(fields, "params"));
    proto::SamplingParams& sampling = result.params.sampling;
    sampling.seed = fields.whole("seed", sampling.seed);
    result.wants_logprobs = fields.has("logprobs");
    sampling.logprobs = fields.whole("logprobs", 0U);
    if (!result.wants_logprobs) sampling.flags |= proto::kNoLogprob;
    read_history(fields, result);
    result.draws = fields.whole("draws", 1U, {1, kMaxDraws});
    result.wants_support = fields.boolean("support", false);
    result.mask = read_mask(fields, result.row.vocab());
    result.hot_blocks = read_hot(fields, result.row);
    if (!result.hot_blocks.empty()) sampling.rng = proto::rng_with_hot_set(sampling.rng);
    result.feedback = read_feedback(fields);
    result.random = read_random(fields, result);
    result.stop_strings = read_stop_strings(fields);
    result.keep_special = fields.boolean("keep_special", false);
    result.stop_at_json = fields.boolean("stop_at_json", false);
    result.decided = read_decided(fields);
    result.impl = static_cast<Impl>(fields.choice("impl", {"fast", "reference"}, 0));
    if (fields.has("target")) result.target = target_of(fields.text("target", ""));
    return result;
}

Asked::Asked(const Case& of, std::uint32_t child, std::uint32_t draw)
    : params_(request::params_of_child(of.params.sampling, child)) {
    // The sampler computes the drawn token's rank only with log-probs of best tokens.
    if (of.wants_logprobs) params_.logprobs = std::max(params_.logprobs, 1U);
    request_.params = &params_;
    request_.bias = of.params.bias;
    request_.stop_ids = of.params.stop_ids;
    request_.allowed_ids = of.params.allowed_ids;
    request_.bad_words = of.params.bad_words;
    request_.dry_breakers = of.params.dry_breakers;
    request_.prompt = of.prompt;
    request_.output = of.output;
    request_.mask = of.mask;
    request_.hot_blocks = of.hot_blocks;
    request_.max_length = of.max_length;
    request_.position_shift = of.position + draw - sampler::random_position(request_);
    request_.random = of.random.value_or(
        proto::random_at(params_.seed, sampler::random_position(request_), params_.child, 0));
    request_.feedback = of.feedback;
    request_.wants_support = of.wants_support && draw == 0;
}

}  // namespace croupier::explain
