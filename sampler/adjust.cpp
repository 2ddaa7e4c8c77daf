#include "sampler/adjust.h"

#include <cstddef>
#include <limits>

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kWordBits = 32;

void apply_mask_word(std::uint32_t word, std::uint32_t count, float* row) {
    for (std::uint32_t bit = 0; bit < count; ++bit) {
        row[bit] = (word & (1U << bit)) != 0 ? row[bit] : -std::numeric_limits<float>::infinity();
    }
}

void apply_mask_in_id_order(std::span<const std::uint32_t> mask, std::uint32_t vocab, float* row) {
    const std::uint32_t whole = vocab / kWordBits;
    for (std::uint32_t word = 0; word < whole; ++word) {
        if (mask[word] != ~0U) apply_mask_word(mask[word], kWordBits, row + std::size_t{word} * kWordBits);
    }
    const std::uint32_t rest = vocab % kWordBits;
    if (rest > 0) apply_mask_word(mask[whole], rest, row + std::size_t{whole} * kWordBits);
}

bool ban(std::int32_t token, const VocabularyOrder& order, std::span<double> adjusted) {
    const auto position = order.position_of(token);
    if (!position) return false;
    adjusted[*position] = -std::numeric_limits<double>::infinity();
    return true;
}

}  // namespace

bool apply_mask(std::span<const std::uint32_t> mask, std::uint32_t vocab, const VocabularyOrder& order,
                std::span<float> row) {
    if (order.is_identity()) {
        apply_mask_in_id_order(mask, vocab, row.data());
        return true;
    }
    for (std::uint32_t position = 0; position < vocab; ++position) {
        const auto token = order.token_at(position);
        if (!token) return false;
        const bool allowed = (mask[*token / kWordBits] >> (*token % kWordBits) & 1U) != 0;
        if (!allowed) row[position] = -std::numeric_limits<float>::infinity();
    }
    return true;
}

bool ban_stops(std::int32_t eos, std::span<const std::int32_t> stop_ids, const VocabularyOrder& order,
               std::span<double> adjusted) {
    if (eos >= 0 && !ban(eos, order, adjusted)) return false;
    for (const std::int32_t token : stop_ids) {
        if (!ban(token, order, adjusted)) return false;
    }
    return true;
}

bool add_bias(std::span<const proto::TokenBias> bias, const VocabularyOrder& order,
              std::span<double> adjusted) {
    for (const proto::TokenBias& each : bias) {
        const auto position = order.position_of(each.token);
        if (!position) return false;
        adjusted[*position] += static_cast<double>(each.bias);
    }
    return true;
}

void apply_repetition_penalty(double penalty, const History& history, std::span<double> adjusted) {
    for (const std::uint32_t position : history.positions()) {
        double& value = adjusted[position];
        value = value > 0.0 ? value / penalty : value * penalty;
    }
}

void apply_frequency_penalty(double penalty, const History& history, std::span<double> adjusted) {
    for (const std::uint32_t position : history.positions()) {
        adjusted[position] -= penalty * static_cast<double>(history.outputs_at(position));
    }
}

void apply_presence_penalty(double penalty, const History& history, std::span<double> adjusted) {
    for (const std::uint32_t position : history.positions()) {
        if (history.outputs_at(position) > 0) adjusted[position] -= penalty;
    }
}

}  // namespace croupier::sampler
