// One JSON object of a request, read by name: a value of the wrong type or size, and a key that nobody knows,
// are errors that say where they stand.
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

// What is wrong with a request, in one sentence for its author.
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

// A value as it stands in an error: JSON, cut when it is long.
std::string shown(const Json& value);
// "; did you mean 'top_k'?", or all that is known when nothing is near.
std::string suggestion(std::string_view wrong, const std::vector<std::string>& known);

// Two's complement: a caller casts it back to a type of its own. Throws RequestError, as all below.
std::uint64_t whole_of(const std::string& path, const Json& value, WholeRange range);
// A number, or the words for those that JSON has no notation for: "nan", "inf" and "-inf".
double real_of(const std::string& path, const Json& value);

class Fields {
  public:
    // `where` is empty for the request itself, else the object's name with its dot: "params.".
    Fields(const Json& object, std::string where, const std::vector<std::string>& known);

    // Null when the key is left out or stands for nothing (null).
    const Json* find(const std::string& key) const;
    bool has(const std::string& key) const { return find(key) != nullptr; }
    std::string path(std::string_view key) const { return where_ + std::string(key); }

    bool boolean(const std::string& key, bool otherwise) const;
    double real(const std::string& key, double otherwise) const;
    std::string text(const std::string& key, std::string_view otherwise) const;
    template <typename Whole>
    Whole whole(const std::string& key, Whole otherwise, WholeRange range = kAllOf<Whole>) const {
        const Json* value = find(key);
        return value == nullptr ? otherwise : static_cast<Whole>(whole_of(path(key), *value, range));
    }
    // The choice's place in `names`.
    std::size_t choice(const std::string& key, const std::vector<std::string>& names,
                       std::size_t otherwise) const;
    std::vector<std::int32_t> ids(const std::string& key) const;
    // [[1, 2], [3]] or [1, 2] for lists of one: each list's length, then its ids.
    std::vector<std::int32_t> id_lists(const std::string& key) const;

  private:
    const Json& list(const std::string& key, const Json& value, const char* of) const;

    const Json& object_;
    std::string where_;
};

}  // namespace croupier::explain
