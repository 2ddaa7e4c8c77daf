// The types of values that are numbers, switches or one of a few words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value_type.h"

namespace croupier::config {

ValueType<std::uint32_t> whole_number(std::uint32_t min, std::uint32_t max);
ValueType<std::uint64_t> byte_size(std::uint64_t min, std::uint64_t max);
ValueType<bool> on_off();
ValueType<std::optional<std::uint32_t>> numa_node();
ValueType<std::uint32_t> file_mode();
ValueType<std::vector<std::uint32_t>> core_list();

std::string listed(const std::vector<std::string>& words);  // "a, b or c"
std::string not_a_choice(const std::string& text, const std::vector<std::string>& words);

template <class E>
ValueType<E> choice(const std::vector<std::pair<std::string, E>>& choices) {
    std::vector<std::string> words;
    words.reserve(choices.size());
    for (const auto& [word, value] : choices) words.push_back(word);
    return {.name = "word",
            .allowed = listed(words),
            .parse = [choices, words](const Scalar& scalar, E& out) -> Wrong {
                for (const auto& [word, value] : choices) {
                    if (scalar.text != word) continue;
                    out = value;
                    return std::nullopt;
                }
                return not_a_choice(scalar.text, words);
            },
            .print = [choices](const E& wanted) -> std::string {
                for (const auto& [word, value] : choices) {
                    if (value == wanted) return word;
                }
                return "";
            }};
}

}  // namespace croupier::config
