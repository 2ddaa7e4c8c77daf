#include "daemon/observation/captured_request.h"

#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "explain/case.h"
#include "explain/params.h"
#include "explain/row.h"
#include "explain/values.h"
#include "proto/dtype.h"
#include "proto/geometry.h"
#include "proto/sampling.h"
#include "proto/stop_words.h"

namespace croupier::daemon {
namespace {

using explain::Json;

// What lies behind the row, taken from front to back.
class Words {
  public:
    explicit Words(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    std::vector<T> take(std::size_t count) {
        std::vector<T> words(count);
        // Not of null: an empty list has no place.
        if (count > 0) std::memcpy(words.data(), bytes_.data(), count * sizeof(T));
        bytes_ = bytes_.subspan(count * sizeof(T));
        return words;
    }

  private:
    std::span<const std::byte> bytes_;
};

// Numbers that JSON has no notation for are words.
Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(explain::number(value).get<std::string>());
}

// The shortest text that is the same float when it is read as a double and rounded.
Json number_of_float(float value) {
    const double brief = explain::shortest(value);
    return number(static_cast<float>(brief) == value ? brief : static_cast<double>(value));
}

Json logits_of(const proto::CapturedHead& head, std::span<const std::byte> elements) {
    Json logits = Json::array();
    const std::size_t bytes = proto::element_bytes(head.dtype);
    for (std::uint32_t id = 0; id < head.vocab; ++id) {
        std::uint32_t bits = 0;  // the machine is little-endian, as the plane is
        std::memcpy(&bits, elements.data() + id * bytes, bytes);
        logits.push_back(number_of_float(static_cast<float>(explain::decode(bits, head.dtype))));
    }
    return logits;
}

Json lists_of(const char* name, std::span<const std::int32_t> lists) {
    Json result = Json::array();
    while (!lists.empty()) {
        const std::int32_t length = lists.front();
        if (length < 1 || static_cast<std::size_t>(length) >= lists.size()) {
            throw explain::RequestError(std::string(name) + " has a list of " + std::to_string(length) +
                                        " ids, and " + std::to_string(lists.size() - 1) + " follow");
        }
        const auto size = static_cast<std::size_t>(length);
        const auto ids = lists.subspan(1, size);
        result.push_back(std::vector<std::int32_t>(ids.begin(), ids.end()));
        lists = lists.subspan(1 + size);
    }
    return result;
}

template <typename Choice>
Json name_or_number(const std::vector<std::string>& names, Choice choice) {
    const auto place = static_cast<std::size_t>(choice);
    return place < names.size() ? Json(names[place]) : Json(place);
}

Json value_of(double value) {
    return number(value);
}
Json value_of(proto::Rng value) {
    return name_or_number(explain::rng_names(), value);
}
Json value_of(proto::LogprobMode value) {
    return name_or_number(explain::logprob_mode_names(), value);
}
template <typename Whole>
requires std::is_integral_v<Whole> Json value_of(Whole value) {
    return value;
}

Json order_of(const proto::StepOrder& order) {
    Json steps = Json::array();
    for (const proto::Step step : order) {
        if (step == proto::Step::end) break;
        const std::size_t place = static_cast<std::size_t>(step) - 1;
        steps.push_back(name_or_number(explain::step_names(), place));
    }
    return steps;
}

Json params_of(const proto::SamplingParams& sampling) {
    const proto::SamplingParams defaults;
    Json params = Json::object();
    proto::for_each_sampling_field([&](const auto& field) {
        if (field.key == nullptr || sampling.*field.member == defaults.*field.member) return;
        params[field.key] = value_of(sampling.*field.member);
    });
    for (const proto::FlagName& each : proto::kParameterFlagNames) {
        if ((sampling.flags & each.flag) != 0) params[each.name] = true;
    }
    if (sampling.order[0] != proto::Step::end) params["order"] = order_of(sampling.order);
    return params;
}

Json bias_of(const std::vector<proto::TokenBias>& biases) {
    Json list = Json::array();
    for (const proto::TokenBias& each : biases) list.push_back({each.token, number_of_float(each.bias)});
    return list;
}

void add(Json& to, const char* key, Json value) {
    if (!value.empty()) to[key] = std::move(value);
}

}  // namespace

shm::Result<proto::CapturedHead> check_captured(std::span<const std::byte> captured) {
    proto::CapturedHead head;
    const auto refused = [](const std::string& what) {
        return shm::fail(shm::Errc::corrupt_header, "the captured decision " + what);
    };
    if (captured.size() < sizeof(head)) return refused("is too short");
    std::memcpy(&head, captured.data(), sizeof(head));
    if (head.magic != proto::kCaptureMagic || head.version != proto::kCaptureVersion ||
        head.bytes != sizeof(head))
        return refused("is of another build");
    if (head.vocab == 0 || head.vocab > proto::kMaxVocab || head.dtype > proto::Dtype::fp32)
        return refused("has no row of logits");
    const std::uint64_t expected =
        sizeof(head) + proto::captured_row_bytes(head) + proto::captured_words(head) * sizeof(std::uint32_t);
    if (captured.size() != expected)
        return refused("has " + std::to_string(captured.size()) + " bytes, and should have " +
                       std::to_string(expected));
    head.path[sizeof(head.path) - 1] = '\0';
    return head;
}

Json request_of(const proto::CapturedHead& head, std::span<const std::byte> captured) {
    const auto elements = captured.subspan(sizeof(head));
    Words words(elements.subspan(proto::captured_row_bytes(head)));
    const proto::SamplingParams& sampling = head.params;
    Json request = {{"logits", logits_of(head, elements)},
                    {"dtype", explain::dtype_names()[static_cast<std::size_t>(head.dtype)]},
                    {"max_length", head.max_length},
                    // As text: a reader of JSON may round numbers beyond 2^53.
                    {"seed", std::to_string(sampling.seed)}};
    add(request, "mask", words.take<std::uint32_t>(head.mask_words));
    add(request, "prompt", words.take<std::int32_t>(head.prompt));
    add(request, "output", words.take<std::int32_t>(head.output));
    Json params = params_of(sampling);
    params.erase("seed");
    add(params, "logit_bias", bias_of(words.take<proto::TokenBias>(head.biases)));
    add(params, "stop_token_ids", words.take<std::int32_t>(head.stop_ids));
    add(params, "allowed_token_ids", words.take<std::int32_t>(head.allowed_ids));
    add(params, "bad_words", lists_of("bad_words", words.take<std::int32_t>(head.bad_words)));
    add(params, "dry_sequence_breakers",
        lists_of("dry_sequence_breakers", words.take<std::int32_t>(head.breakers)));
    add(request, "params", std::move(params));
    // No other draw looks at them, and with them a request asks for this one.
    auto hot_blocks = words.take<std::uint32_t>(head.hot_blocks);
    if (sampling.rng == proto::Rng::shvs) add(request, "hot_blocks", std::move(hot_blocks));
    const auto stops = proto::read_stop_words(words.take<std::int32_t>(head.stop_words));
    if (!stops) throw explain::RequestError("the stop strings of the captured decision are none");
    add(request, "stop_strings", *stops);
    if ((sampling.flags & proto::kKeepSpecial) != 0) request["keep_special"] = true;
    if ((sampling.flags & proto::kStopAtJson) != 0) request["stop_at_json"] = true;
    if (head.randoms_supplied != 0) request["random"] = head.random;
    if ((sampling.flags & proto::kNoLogprob) == 0) request["logprobs"] = sampling.logprobs;
    if (head.feedback.weight != 0.0 || head.feedback.level != 0.0)
        request["feedback"] = {{"level", number(head.feedback.level)},
                               {"weight", number(head.feedback.weight)}};
    request["decided"] = {{"step", head.step}, {"token", head.decision.token}, {"path", head.path}};
    return request;
}

}  // namespace croupier::daemon
