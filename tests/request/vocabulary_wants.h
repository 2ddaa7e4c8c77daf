// What a lean step sends of a column of one vocabulary, with room for 96 blocks unless a test says more.
#pragma once

#include <cstdint>

#include "request/plan.h"
#include "request/wants.h"

namespace croupier::request::test {

constexpr std::uint32_t kVocab = 151936;

inline Plan plan_at(const proto::SamplingParams& params, std::uint32_t history, const Rules& rules) {
    return plan_of(params, {rules, false, history, kVocab});
}

inline LeanWant want_in(const proto::SamplingParams& params, std::uint32_t history, const Rules& rules,
                        const BlockRoom& room) {
    return want_of(plan_at(params, history, rules), params, room);
}

// Lists name too many blocks.
inline LeanWant want_at(const proto::SamplingParams& params, std::uint32_t history, const Rules& rules = {}) {
    BlockRoom room{96};
    if (rules.lists) room.named.reset();
    return want_in(params, history, rules, room);
}

}  // namespace croupier::request::test
