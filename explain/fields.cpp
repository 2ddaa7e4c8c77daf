#include "explain/fields.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "config/nearest.h"

namespace croupier::explain {
namespace {

constexpr std::size_t kShown = 60;

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

[[noreturn]] void refuse(const std::string& path, const Json& value, const std::string& allowed) {
    throw RequestError(path + " is " + shown(value) + "; allowed: " + allowed);
}

std::int32_t id_of(const std::string& path, const Json& value) {
    return static_cast<std::int32_t>(whole_of(path, value, kAllOf<std::int32_t>));
}

std::string shortened(std::string text) {
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return text;
}

}  // namespace

std::string shown(const Json& value) {
    if (value.is_array()) return "a list of " + std::to_string(value.size());
    if (value.is_object()) return "an object";
    return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string suggestion(std::string_view wrong, const std::vector<std::string>& known) {
    if (const auto meant = config::nearest(wrong, known)) return "; did you mean '" + *meant + "'?";
    return "; known: " + joined(known);
}

Fields::Fields(const Json& object, std::string where, const std::vector<std::string>& known)
    : object_(object), where_(std::move(where)) {
    for (const auto& [key, value] : object.items()) {
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            throw RequestError("unknown key '" + shortened(path(key)) + "'" + suggestion(key, known));
        }
    }
}

const Json* Fields::find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::boolean(const std::string& key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(path(key), *value, "true or false");
    return value->get<bool>();
}

std::uint64_t whole_of(const std::string& path, const Json& value, WholeRange range) {
    const bool negative = value.is_number_integer() && !value.is_number_unsigned();
    const bool fits = negative ? value.get<std::int64_t>() >= range.low
                               : value.is_number_unsigned() && value.get<std::uint64_t>() <= range.high &&
                                     (range.low <= 0 ||
                                      value.get<std::uint64_t>() >= static_cast<std::uint64_t>(range.low));
    if (!fits) {
        refuse(path, value,
               "a whole number from " + std::to_string(range.low) + " to " + std::to_string(range.high));
    }
    return negative ? static_cast<std::uint64_t>(value.get<std::int64_t>()) : value.get<std::uint64_t>();
}

std::uint64_t long_whole_of(const std::string& path, const Json& value, WholeRange range) {
    if (!value.is_string()) return whole_of(path, value, range);
    const auto& text = value.get_ref<const std::string&>();
    std::uint64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc{} || end != text.data() + text.size())
        refuse(path, value, "a whole number, or its digits as text, up to " + std::to_string(range.high));
    return whole_of(path, number, range);
}

double real_of(const std::string& path, const Json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    refuse(path, value, R"(a number, "nan", "inf" or "-inf")");
}

double Fields::real(const std::string& key, double otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : real_of(path(key), *value);
}

std::string Fields::text(const std::string& key, std::string_view otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return std::string(otherwise);
    if (!value->is_string()) refuse(path(key), *value, "a string");
    return value->get<std::string>();
}

std::size_t Fields::choice(const std::string& key, const std::vector<std::string>& names,
                           std::size_t otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    const auto found =
        value->is_string() ? std::find(names.begin(), names.end(), value->get<std::string>()) : names.end();
    if (found == names.end()) refuse(path(key), *value, "one of " + joined(names));
    return static_cast<std::size_t>(found - names.begin());
}

const Json& Fields::list(const std::string& key, const Json& value, const char* of) const {
    if (!value.is_array()) refuse(path(key), value, std::string("a list of ") + of);
    return value;
}

std::vector<std::int32_t> Fields::ids(const std::string& key) const {
    std::vector<std::int32_t> result;
    const Json* value = find(key);
    if (value == nullptr) return result;
    result.reserve(list(key, *value, "token ids").size());
    for (const Json& each : *value) {
        result.push_back(id_of(path(key) + "[" + std::to_string(result.size()) + "]", each));
    }
    return result;
}

std::vector<std::int32_t> Fields::id_lists(const std::string& key) const {
    std::vector<std::int32_t> result;
    const Json* value = find(key);
    if (value == nullptr) return result;
    std::size_t number = 0;
    for (const Json& each : list(key, *value, "token ids, or of lists of them")) {
        const std::string where = path(key) + "[" + std::to_string(number++) + "]";
        if (!each.is_array()) {
            result.push_back(1);
            result.push_back(id_of(where, each));
            continue;
        }
        if (each.empty()) refuse(where, each, "a list of at least one token id");
        result.push_back(static_cast<std::int32_t>(each.size()));
        std::size_t place = 0;
        for (const Json& member : each) {
            result.push_back(id_of(where + "[" + std::to_string(place++) + "]", member));
        }
    }
    return result;
}

}  // namespace croupier::explain
