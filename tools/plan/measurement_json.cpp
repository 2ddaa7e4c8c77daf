#include "tools/plan/measurement_json.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "proto/geometry.h"

namespace croupier::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "croupier-plan-measurement";
constexpr std::uint32_t kVersion = 1;
constexpr double kLeastUs = 1e-3;  // the resolution of the clock
constexpr double kMostUs = 1e9;

const json& field(const json& object, const char* name, const std::string& where) {
    if (object.is_object() && object.contains(name)) return object.at(name);
    throw std::runtime_error(fmt::format("{} has no `{}`", where, name));
}

double number(const json& object, const char* name, const std::string& where, double least, double most) {
    const json& value = field(object, name, where);
    if (value.is_number()) {
        const auto found = value.get<double>();
        if (found >= least && found <= most) return found;
    }
    throw std::runtime_error(
        fmt::format("{}: `{}` is {}; allowed: a number from {} to {}", where, name,
                    value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40), least, most));
}

std::uint32_t whole(const json& object, const char* name, const std::string& where, std::uint32_t least,
                    std::uint32_t most) {
    const double found = number(object, name, where, least, most);
    if (found == std::floor(found)) return static_cast<std::uint32_t>(found);
    throw std::runtime_error(fmt::format("{}: `{}` is {}; allowed: a whole number from {} to {}", where, name,
                                         found, least, most));
}

// Restricted, because names are printed to terminals and passed as program arguments.
std::string word(const json& object, const char* name, const std::string& where) {
    const json& value = field(object, name, where);
    std::string found = value.is_string() ? value.get<std::string>() : "";
    const bool plain =
        !found.empty() && found.size() < 64 && found.front() != '-' &&
        found.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_=.,") == std::string::npos;
    if (plain) return found;
    throw std::runtime_error(fmt::format("{}: `{}` is not a name", where, name));
}

// Cleans the processor's name, which is only displayed.
std::string printable(std::string text) {
    std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
    return text.substr(0, 100);
}

ColumnTimes columns_from(const json& object, const std::string& where) {
    ColumnTimes columns;
    columns.mean_us = number(object, "column_mean_us", where, 0.0, kMostUs);
    const json& buckets = field(object, "column_buckets", where);
    if (!buckets.is_array() || buckets.size() != columns.buckets.size()) {
        throw std::runtime_error(
            fmt::format("{}: `column_buckets` is not a list of {} counts", where, columns.buckets.size()));
    }
    std::uint64_t all = 0;
    for (std::size_t bucket = 0; bucket < columns.buckets.size(); ++bucket) {
        const json& count = buckets[bucket];
        if (!count.is_number_unsigned() || count.get<std::uint64_t>() > (1ULL << 40U)) {
            throw std::runtime_error(fmt::format("{}: `column_buckets`[{}] is not a count", where, bucket));
        }
        columns.buckets[bucket] = count.get<std::uint64_t>();
        all += columns.buckets[bucket];
    }
    if (all == 0) throw std::runtime_error(where + ": `column_buckets` is all zeros");
    return columns;
}

MeasuredStep step_from(const json& object, const std::string& where) {
    MeasuredStep step;
    Setting& setting = step.setting;
    setting.requests.mix = word(object, "mix", where);
    setting.requests.dtype = word(object, "dtype", where);
    setting.requests.transport = word(object, "transport", where);
    setting.requests.wait = word(object, "wait", where);
    const json& summaries = field(object, "summaries", where);
    if (!summaries.is_boolean()) throw std::runtime_error(where + ": `summaries` is neither true nor false");
    setting.requests.summaries = summaries.get<bool>();
    setting.vocab = whole(object, "vocab", where, 1, proto::kMaxVocab);
    setting.batch = whole(object, "batch", where, 1, proto::kMaxBatch);
    setting.tp = whole(object, "tp", where, 1, proto::kMaxTp);
    setting.stage_ms = number(object, "stage_ms", where, 0.0, 1e6);
    step.samplers = whole(object, "samplers", where, 1, proto::kMaxSamplers);
    // Older files have one run and no such field.
    if (object.contains("runs")) step.runs = whole(object, "runs", where, 1, 1000);
    step.steps = whole(object, "steps", where, 1, std::numeric_limits<std::uint32_t>::max());
    step.p50_us = number(object, "p50_us", where, kLeastUs, kMostUs);
    step.p99_us = number(object, "p99_us", where, kLeastUs, kMostUs);
    step.columns = columns_from(object, where);
    constexpr double kMostBytes = 0x1p50;
    step.sampler_bytes = static_cast<std::uint64_t>(number(object, "sampler_bytes", where, 0, kMostBytes));
    step.supervisor_bytes =
        static_cast<std::uint64_t>(number(object, "supervisor_bytes", where, 0, kMostBytes));
    return step;
}

}  // namespace

ordered_json setting_to_json(const Setting& setting) {
    return {{"mix", setting.requests.mix},
            {"dtype", setting.requests.dtype},
            {"transport", setting.requests.transport},
            {"summaries", setting.requests.summaries},
            {"wait", setting.requests.wait},
            {"vocab", setting.vocab},
            {"batch", setting.batch},
            {"tp", setting.tp},
            {"stage_ms", setting.stage_ms}};
}

ordered_json measurement_to_json(const Measurement& measurement) {
    ordered_json steps = ordered_json::array();
    for (const MeasuredStep& step : measurement.steps) {
        ordered_json object = setting_to_json(step.setting);
        object.update({{"samplers", step.samplers},
                       {"runs", step.runs},
                       {"steps", step.steps},
                       {"p50_us", step.p50_us},
                       {"p99_us", step.p99_us},
                       {"column_mean_us", step.columns.mean_us},
                       {"column_buckets", step.columns.buckets},
                       {"sampler_bytes", step.sampler_bytes},
                       {"supervisor_bytes", step.supervisor_bytes}});
        steps.push_back(std::move(object));
    }
    return {{"format", kFormat},
            {"version", kVersion},
            {"croupier", CROUPIER_VERSION},
            {"host", {{"processor", measurement.host.processor}, {"cores", measurement.host.cores}}},
            {"steps", std::move(steps)}};
}

Measurement measurement_from_json(const json& json) {
    if (!json.is_object() || !json.contains("format") || json.at("format") != kFormat)
        throw std::runtime_error("it is not a measurement of `croupier plan`");
    const std::uint32_t version = whole(json, "version", "the measurement", 0, UINT32_MAX);
    if (version != kVersion) {
        throw std::runtime_error(
            fmt::format("its version is {}; this croupier reads version {}", version, kVersion));
    }
    Measurement measurement;
    const auto& host = field(json, "host", "the measurement");
    measurement.host.cores = whole(host, "cores", "`host`", 1, 65536);
    const auto& processor = field(host, "processor", "`host`");
    measurement.host.processor = printable(processor.is_string() ? processor.get<std::string>() : "unknown");
    const auto& steps = field(json, "steps", "the measurement");
    if (!steps.is_array() || steps.empty() || steps.size() > 100000)
        throw std::runtime_error("`steps` is not a list of measured steps");
    for (std::size_t i = 0; i < steps.size(); ++i)
        measurement.steps.push_back(step_from(steps[i], fmt::format("`steps`[{}]", i)));
    return measurement;
}

}  // namespace croupier::tools
