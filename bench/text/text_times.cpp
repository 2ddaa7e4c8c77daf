#include "bench/text/text_times.h"

#include <algorithm>
#include <limits>

#include "measurement/uninterrupted.h"
#include "text/sequence_text.h"

namespace croupier::bench {
namespace {

// Calls `decode` with each sequence's ids, and returns the bytes of text.
template <typename Decode>
std::size_t over_sequences(std::span<const std::int32_t> ids, std::size_t length, Decode decode) {
    std::size_t bytes = 0;
    std::string text;
    for (std::size_t begin = 0; begin < ids.size(); begin += length) {
        text.clear();
        decode(ids.subspan(begin, std::min(length, ids.size() - begin)), text);
        bytes += text.size();
    }
    return bytes;
}

std::size_t copy_bytes(const text::TokenTable& table, std::span<const std::int32_t> ids, std::size_t length) {
    return over_sequences(ids, length, [&table](std::span<const std::int32_t> sequence, std::string& text) {
        for (const std::int32_t id : sequence) {
            if (const auto token = table.find(id)) text += token->bytes;
        }
    });
}

// A stop string that is found is passed over, so that every token is decoded.
std::size_t decode(const text::TokenTable& table, std::span<const std::int32_t> ids, std::size_t length,
                   const std::vector<std::string>& stops) {
    const text::SequenceText empty(table, {stops, std::numeric_limits<std::uint64_t>::max(), false});
    return over_sequences(ids, length, [&empty](std::span<const std::int32_t> sequence, std::string& text) {
        text::SequenceText decoded = empty;
        for (const std::int32_t id : sequence) decoded.add(id, text);
    });
}

}  // namespace

std::vector<TextCase> text_cases(const text::TokenTable& table, std::span<const std::int32_t> ids) {
    std::string text;
    text::SequenceText sequence(table, {});
    for (const std::int32_t id : ids.first(std::min<std::size_t>(ids.size(), 10'000))) sequence.add(id, text);
    TextCase longest{"16 of 256 bytes", {}};
    for (std::size_t i = 0; i < 16 && text.size() > 8000; ++i) {
        std::size_t begin = i * 400;
        while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0U) == 0x80U) --begin;
        // Half of it is text, so that it is followed into the automaton.
        std::string stop = text.substr(begin, 200);
        while (!text::is_utf8(stop)) stop.pop_back();
        longest.stops.push_back(stop + std::string(256 - stop.size(), '#'));
    }
    return {{"text", {}},
            {"16 stop strings",
             {"\n\n", "</s>", "<|im_end|>", "<|eot_id|>", "User:", "Human:", "Assistant:", "Observation:",
              "###", "```", "\n\nQ:", "END", "---", "[/INST]", "</answer>", "\nclass "}},
            longest};
}

std::vector<TextTime> time_texts(const text::TokenTable& table, std::span<const std::int32_t> ids,
                                 std::size_t length, std::size_t rounds, const std::vector<TextCase>& cases) {
    constexpr double kNsPerUs = 1e3;
    std::vector<TextTime> times{{"bytes", std::numeric_limits<double>::infinity(), 0}};
    for (const TextCase& each : cases)
        times.push_back({each.name, std::numeric_limits<double>::infinity(), 0});
    const auto count = static_cast<double>(ids.size());
    for (std::size_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < times.size(); ++i) {
            std::size_t bytes = 0;
            const double us = measurement::running_us([&] {
                bytes =
                    i == 0 ? copy_bytes(table, ids, length) : decode(table, ids, length, cases[i - 1].stops);
            });
            times[i].ns = std::min(times[i].ns, us * kNsPerUs / count);
            times[i].bytes = static_cast<double>(bytes) / count;
        }
    }
    return times;
}

}  // namespace croupier::bench
