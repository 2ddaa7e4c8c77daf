#include "python/extension/request.h"

#include <string>

#include "python/extension/array.h"
#include "python/extension/numbers.h"
#include "python/extension/params.h"

namespace croupier::python {
namespace {

// Which of them are ids of the vocabulary says the library; here they need to fit.
constexpr const char* kIds = "whole numbers, which are ids of tokens";

template <typename Whole>
void append_all(const Array& array, std::vector<std::int32_t>& ids) {
    const auto* first = static_cast<const Whole*>(array.data());
    for (std::size_t i = 0; i < array.length(0); ++i) {
        const Whole id = first[static_cast<std::int64_t>(i) * array.stride(0)];
        if (!std::in_range<std::int32_t>(id)) {
            throw bad_argument(array.name() + "[" + std::to_string(i) + "] is " + std::to_string(id) +
                               "; allowed: " + kIds);
        }
        ids.push_back(static_cast<std::int32_t>(id));
    }
}

std::vector<std::int32_t> ids_of_array(const Array& array) {
    std::vector<std::int32_t> ids;
    array.require_host();
    array.require_dimensions(1, kIds);
    ids.reserve(array.length(0));
    if (array.type() == kInt32) {
        append_all<std::int32_t>(array, ids);
    } else if (array.type() == kInt64) {
        append_all<std::int64_t>(array, ids);
    } else if (array.type() == kUint32) {
        append_all<std::uint32_t>(array, ids);
    } else if (array.type() == kUint64) {
        append_all<std::uint64_t>(array, ids);
    } else if (array.length(0) > 0) {
        throw bad_argument("the elements of " + array.name() + " are " + name_of(array.type()) +
                           "; allowed: int32, int64, uint32 or uint64");
    }
    return ids;
}

void require_iterable(nb::handle given, const std::string& name, const char* allowed) {
    if (!nb::isinstance<nb::str>(given) && nb::hasattr(given, "__iter__")) return;
    throw bad_argument(name + " is " + shown(given) + "; allowed: " + allowed);
}

}  // namespace

std::vector<std::int32_t> ids_of(nb::handle given, const std::string& name) {
    if (given.is_none()) return {};
    if (Array::is_one(given)) return ids_of_array(Array(given, name));
    require_iterable(given, name, "a sequence or an array of whole numbers, which are ids of tokens");
    std::vector<std::int32_t> ids;
    for (const nb::handle each : given) {
        const auto id = number_of<std::int32_t>(each);
        if (!id) {
            throw bad_argument(name + "[" + std::to_string(ids.size()) + "] is " + shown(each) +
                               "; allowed: " + kIds);
        }
        ids.push_back(*id);
    }
    return ids;
}

namespace {

// Several lists in one: each list's length, then its ids.
std::vector<std::int32_t> lists_of(nb::handle given, const std::string& name) {
    if (given.is_none()) return {};
    require_iterable(given, name, "a list of lists of ids");
    std::vector<std::int32_t> words;
    std::size_t index = 0;
    for (const nb::handle each : given) {
        const auto ids = ids_of(each, name + "[" + std::to_string(index++) + "]");
        words.push_back(static_cast<std::int32_t>(ids.size()));
        words.insert(words.end(), ids.begin(), ids.end());
    }
    return words;
}

std::vector<croupier_bias> bias_of(nb::handle given) {
    std::vector<croupier_bias> all;
    if (given.is_none()) return all;
    if (!nb::isinstance<nb::dict>(given)) {
        throw bad_argument("bias is of type " + type_name_of(given) +
                           "; allowed: a dict of biases by token id, such as {42: -1.5}");
    }
    for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
        const auto token = number_of<std::int32_t>(key);
        const auto bias = number_of<float>(value);
        if (!token) throw bad_argument("bias has the key " + shown(key) + "; allowed: " + kIds);
        if (!bias) throw bad_argument("bias[" + shown(key) + "] is " + shown(value) + "; allowed: a number");
        all.push_back({*token, *bias});
    }
    return all;
}

std::vector<std::string> strings_of(nb::handle given, const std::string& name) {
    std::vector<std::string> strings;
    if (given.is_none()) return strings;
    require_iterable(given, name, "a list of strings");
    for (const nb::handle each : given) {
        Py_ssize_t bytes = 0;
        const char* const text =
            nb::isinstance<nb::str>(each) ? PyUnicode_AsUTF8AndSize(each.ptr(), &bytes) : nullptr;
        if (text == nullptr) {
            PyErr_Clear();  // a lone surrogate
            throw bad_argument(name + "[" + std::to_string(strings.size()) + "] is " + shown(each) +
                               "; allowed: a string that has a UTF-8 form");
        }
        strings.emplace_back(text, static_cast<std::size_t>(bytes));
    }
    return strings;
}

}  // namespace

std::uint64_t uid_of(nb::handle value) {
    const auto uid = number_of<std::uint64_t>(value);
    if (!uid) throw bad_argument("uid is " + shown(value) + "; allowed: 0 to 2^64 - 1");
    return *uid;
}

Request::Request(std::uint64_t uid, const RequestArguments& arguments)
    : uid_(uid),
      params_(params_of(arguments.params)),
      prompt_(ids_of(arguments.prompt, "prompt")),
      output_(ids_of(arguments.output, "output")),
      stop_ids_(ids_of(arguments.stop_ids, "stop_ids")),
      allowed_ids_(ids_of(arguments.allowed_ids, "allowed_ids")),
      bad_words_(lists_of(arguments.bad_words, "bad_words")),
      dry_breakers_(lists_of(arguments.dry_breakers, "dry_breakers")),
      bias_(bias_of(arguments.bias)),
      stop_texts_(strings_of(arguments.stop_strings, "stop_strings")) {
    for (const std::string& each : stop_texts_) stop_strings_.push_back({each.data(), each.size()});
}

croupier_sequence Request::sequence() const {
    croupier_sequence plain;
    croupier_sequence_init(&plain);
    plain.uid = uid_;
    plain.params = &params_;
    plain.prompt = prompt_.data();
    plain.prompt_count = prompt_.size();
    plain.output = output_.data();
    plain.output_count = output_.size();
    plain.bias = bias_.data();
    plain.bias_count = bias_.size();
    plain.stop_ids = stop_ids_.data();
    plain.stop_count = stop_ids_.size();
    plain.allowed_ids = allowed_ids_.data();
    plain.allowed_count = allowed_ids_.size();
    plain.bad_words = bad_words_.data();
    plain.bad_words_count = bad_words_.size();
    plain.dry_breakers = dry_breakers_.data();
    plain.dry_breakers_count = dry_breakers_.size();
    plain.stop_strings = stop_strings_.data();
    plain.stop_string_count = stop_strings_.size();
    return plain;
}

}  // namespace croupier::python
