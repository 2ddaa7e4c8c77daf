// The hidden state that the simulated model feeds to its LM head, on a CPU or a GPU. Each logit is one
// feature times one weight, so that every implementation gives the same bits.
#pragma once

#include <array>
#include <cstdint>

#include "sim/keyed_hash.h"

namespace croupier::sim {

constexpr std::uint64_t kRowKey = 5;
constexpr std::uint32_t kThemes = 4;

// Number of tokens whose logits a row can raise; they are spread over the vocabulary.
constexpr std::uint32_t raised_tokens(std::uint32_t vocab) {
    constexpr std::uint32_t kMost = 2047;
    return vocab / 4 < kMost ? vocab / 4 : kMost;
}
constexpr std::int32_t raised_token(std::uint32_t vocab, std::uint32_t number) {
    return static_cast<std::int32_t>(std::uint64_t{number} * vocab / raised_tokens(vocab));
}

// Features: one for each chunk of the vocabulary and base row, with that row's entries as weights; one for
// each raised token, with weight 1; and one for the end of sequence.
struct ModelShape {
    std::uint64_t seed = 0;
    std::uint32_t vocab = 0;
    std::uint32_t rows = 0;
    std::uint32_t chunk = 0;   // in ids; the whole vocabulary if rows come from a file
    std::uint32_t raised = 0;  // 0: rows of a file are not changed

    constexpr std::uint32_t chunks() const { return (vocab + chunk - 1) / chunk; }
    constexpr std::uint32_t chunk_feature(std::uint32_t number, std::uint32_t row) const {
        return number * rows + row;
    }
    constexpr std::uint32_t raised_feature(std::uint32_t number) const { return chunks() * rows + number; }
    constexpr std::uint32_t features() const { return raised_feature(raised == 0 ? 0 : raised + 1); }
    constexpr std::uint64_t row_key(std::uint32_t request, std::uint32_t position,
                                    std::int32_t previous) const {
        return key_of(seed, kRowKey, request, position, previous);
    }
    constexpr std::uint32_t row_of_chunk(std::uint64_t key, std::uint32_t number) const {
        return static_cast<std::uint32_t>((raised == 0 ? key : key_of(key, number)) % rows);
    }
    constexpr std::uint32_t poisoned_id(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key % vocab);
    }
};

// In eighths, which bf16 represents exactly. Most rows have one likely token, some have several, a few are
// nearly flat: nuclei of real models have 1 to 100,000 tokens.
constexpr std::int32_t height_of_best(KeyedStream& random) {
    const std::uint32_t percent = random.below(100);
    if (percent < 70) return static_cast<std::int32_t>(152 + random.below(41));
    if (percent < 90) return static_cast<std::int32_t>(128 + random.below(25));
    return static_cast<std::int32_t>(104 + random.below(25));
}

// Calls raise(number of the raised token, height in eighths); a later call overrides an earlier one.
template <typename Raise>
constexpr void raise_tokens(const ModelShape& shape, const std::array<std::uint32_t, kThemes>& themes,
                            std::uint64_t key, Raise&& raise) {
    constexpr std::uint32_t kRaised = 16;
    KeyedStream random(mix(key));
    std::int32_t height = height_of_best(random);
    for (std::uint32_t i = 0; i < kRaised; ++i) {
        const bool theme = random.below(4) == 0;
        const std::uint32_t which = random.below(kThemes);
        const std::uint32_t other = random.below(shape.raised);
        raise(theme ? themes[which] : other, height);
        height -= static_cast<std::int32_t>(random.below(10));
    }
    const auto end = static_cast<std::int32_t>(128 + random.below(65));
    if (random.below(32) == 0) raise(shape.raised, end);
}

}  // namespace croupier::sim
