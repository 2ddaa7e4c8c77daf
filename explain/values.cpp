#include "explain/values.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "proto/decision.h"

namespace croupier::explain {

std::vector<std::string> flag_names(std::uint16_t flags) {
    static const std::vector<std::pair<std::uint16_t, const char*>> names = {
        {proto::kStoppedByEos, "stopped_by_eos"},
        {proto::kStoppedByToken, "stopped_by_token"},
        {proto::kStoppedByLength, "stopped_by_length"},
        {proto::kStoppedByString, "stopped_by_stop_string"},
        {proto::kStoppedByLoop, "stopped_by_loop"},
        {proto::kStoppedByJson, "stopped_by_json"},
        {proto::kGreedy, "greedy"},
        {proto::kTruncated, "truncated"}};
    std::vector<std::string> result;
    for (const auto& [bit, name] : names) {
        if ((flags & bit) != 0) result.emplace_back(name);
    }
    return result;
}

OrderedJson number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

double shortest(float value) {
    char text[32];
    const auto written = std::to_chars(std::begin(text), std::end(text), value);
    auto result = static_cast<double>(value);
    if (std::isfinite(value)) std::from_chars(std::begin(text), written.ptr, result);
    return result;
}

}  // namespace croupier::explain
