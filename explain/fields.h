// Reads the keys of a JSON object in a request. Unknown keys and values of the wrong type or size are errors
// that name their place.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace croupier::explain {

using Json = nlohmann::json;

// What is wrong with a request, in one sentence.
class RequestError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Whole numbers from `low` to `high`.
struct WholeRange {
    std::int64_t low;
    std::uint64_t high;
};

template <typename Whole>
constexpr WholeRange kAllOf = {static_cast<std::int64_t>(std::numeric_limits<Whole>::min()),
                               static_cast<std::uint64_t>(std::numeric_limits<Whole>::max())};

// A value for an error message: JSON, shortened if long.
std::string shown(const Json& value);
// "; did you mean 'top_k'?", or the list of known names if none is similar.
std::string suggestion(std::string_view wrong, const std::vector<std::string>& known);

// Two's complement: callers cast it to their own type. Like all functions below, throws RequestError.
std::uint64_t whole_of(const std::string& path, const Json& value, WholeRange range);
// A number, or its digits as text: what reads JSON may round a number beyond 2^53.
std::uint64_t long_whole_of(const std::string& path, const Json& value, WholeRange range);
// A number, or "nan", "inf" or "-inf", which JSON cannot express.
double real_of(const std::string& path, const Json& value);

class Fields {
  public:
    // `where` is a prefix for messages: empty for the request, "params." for its member.
    Fields(const Json& object, std::string where, const std::vector<std::string>& known);

    // Returns null if the key is missing or its value is null.
    const Json* find(const std::string& key) const;
    bool has(const std::string& key) const { return find(key) != nullptr; }
    std::string path(std::string_view key) const { return where_ + std::string(key); }

    bool boolean(const std::string& key, bool otherwise) const;
    double real(const std::string& key, double otherwise) const;
    std::string text(const std::string& key, std::string_view otherwise) const;
    template <typename Whole>
    Whole whole(const std::string& key, Whole otherwise, WholeRange range = kAllOf<Whole>) const {
        const Json* value = find(key);
        if (value == nullptr) return otherwise;
        const auto read = std::is_same_v<Whole, std::uint64_t> ? long_whole_of : whole_of;
        return static_cast<Whole>(read(path(key), *value, range));
    }
    // The index of the choice in `names`.
    std::size_t choice(const std::string& key, const std::vector<std::string>& names,
                       std::size_t otherwise) const;
    std::vector<std::int32_t> ids(const std::string& key) const;
    // Accepts [[1, 2], [3]], or [1, 2] as lists of one id. Returns for each list its length and then its ids.
    std::vector<std::int32_t> id_lists(const std::string& key) const;

  private:
    const Json& list(const std::string& key, const Json& value, const char* of) const;

    const Json& object_;
    std::string where_;
};

}  // namespace croupier::explain
