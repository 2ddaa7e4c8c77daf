// Steps 1 to 8 of docs/semantics.md: what changes logits before the temperature. One function a step.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/history.h"
#include "sampler/vocabulary_order.h"

namespace croupier::sampler {

// Functions that return bool return false for an id that stands nowhere in the vocabulary.

// Disallowed tokens become -inf; the mask has a bit for each of the vocabulary's tokens.
bool apply_mask(std::span<const std::uint32_t> mask, std::uint32_t vocab, const VocabularyOrder& order,
                std::span<float> row);

// EOS (-1: none) and the stop ids become -inf.
bool ban_stops(std::int32_t eos, std::span<const std::int32_t> stop_ids, const VocabularyOrder& order,
               std::span<double> adjusted);

bool add_bias(std::span<const proto::TokenBias> bias, const VocabularyOrder& order,
              std::span<double> adjusted);

void apply_repetition_penalty(double penalty, const History& history, std::span<double> adjusted);
void apply_frequency_penalty(double penalty, const History& history, std::span<double> adjusted);
void apply_presence_penalty(double penalty, const History& history, std::span<double> adjusted);

}  // namespace croupier::sampler
