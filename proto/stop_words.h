// Stop strings among the lists of a sequence: for each, its bytes' number, then its bytes, four a word.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/sampling.h"

namespace croupier::proto {

inline void append_stop_words(std::string_view stop, std::vector<std::int32_t>& words) {
    words.push_back(static_cast<std::int32_t>(stop.size()));
    const std::size_t first = words.size();
    words.resize(first + (stop.size() + sizeof(std::int32_t) - 1) / sizeof(std::int32_t));
    if (!stop.empty()) std::memcpy(words.data() + first, stop.data(), stop.size());
}

// Nothing if the words are no stop strings; too many words are none.
inline std::optional<std::vector<std::string>> read_stop_words(std::span<const std::int32_t> words) {
    std::vector<std::string> stops;
    while (!words.empty()) {
        const auto bytes = static_cast<std::uint32_t>(words.front());
        words = words.subspan(1);
        if (bytes > kMaxStopStringBytes || stops.size() == kMaxStopStrings) return std::nullopt;
        const std::size_t count = (bytes + sizeof(std::int32_t) - 1) / sizeof(std::int32_t);
        if (count > words.size()) return std::nullopt;
        stops.emplace_back(reinterpret_cast<const char*>(words.data()), bytes);
        words = words.subspan(count);
    }
    return stops;
}

}  // namespace croupier::proto
