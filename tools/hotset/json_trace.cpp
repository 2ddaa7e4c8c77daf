#include "tools/hotset/json_trace.h"

#include <array>

#include "explain/case.h"
#include "explain/fields.h"

namespace croupier::tools {
namespace {

constexpr std::array kKeys = {"tokens", "prompt", "output", "history", "next"};

class LineCounter {
  public:
    explicit LineCounter(std::span<double> count_of_id) : count_of_id_(count_of_id) {}

    void count_line(const explain::Json& line) {
        if (line.is_array()) return count_list("the list", line);
        if (!line.is_object()) {
            throw explain::RequestError("is " + explain::shown(line) +
                                        "; allowed: a list of token ids, or an object");
        }
        bool found = false;
        for (const char* key : kKeys) {
            const auto value = line.find(key);
            if (value == line.end()) continue;
            found = true;
            if (!value->is_null()) count_value(key, *value);
        }
        if (!found) {
            throw explain::RequestError(
                "is an object without token ids; it should have one or more of tokens, prompt, "
                "output, history, next");
        }
    }

  private:
    void count_value(const char* key, const explain::Json& value) {
        if (value.is_array()) return count_list(key, value);
        if (!value.is_number()) {
            throw explain::RequestError(std::string(key) + " is " + explain::shown(value) +
                                        "; allowed: a token id, or a list of them");
        }
        if (!count(value)) refuse(key, value);
    }
    void count_list(const char* key, const explain::Json& list) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (!count(list[i])) refuse(key + ("[" + std::to_string(i) + "]"), list[i]);
        }
    }
    bool count(const explain::Json& value) {
        // The JSON parser makes whole numbers without a sign unsigned; nothing else is an id.
        if (!value.is_number_unsigned()) return false;
        const auto id = value.get<std::uint64_t>();
        if (id >= count_of_id_.size()) return false;
        count_of_id_[id] += 1.0;
        return true;
    }
    [[noreturn]] void refuse(const std::string& path, const explain::Json& value) const {
        throw explain::RequestError(path + " is " + explain::shown(value) + "; allowed: token ids, 0 to " +
                                    std::to_string(count_of_id_.size() - 1));
    }

    std::span<double> count_of_id_;
};

}  // namespace

void count_json_line(std::string_view line, const std::string& where, std::span<double> count_of_id) {
    try {
        LineCounter(count_of_id).count_line(explain::parse_json(line));
    } catch (const explain::RequestError& error) {
        throw explain::RequestError(where + ": " + error.what());
    }
}

}  // namespace croupier::tools
