// How much of a lean step's column is sent, by the plan of its request: as many blocks as its decision is
// likely to read, and the sums that it needs. A sampler asks for what turns out to be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "request/lean_want.h"
#include "request/plan.h"

namespace croupier::request {

// How many blocks a column has room for, and how many ids the request names; nothing: more than it may.
struct BlockRoom {
    std::uint32_t all;
    std::optional<std::uint16_t> named = 0;
};

// How many ids a request may name: those that it allows alone, or those with a bias.
constexpr std::uint32_t most_named(const Rules& rules, std::uint32_t room) {
    // The least that blocks are left with: those that ranks share, and those of the best tokens.
    constexpr std::uint32_t kLeft = 16;
    constexpr std::uint32_t kOfBlock = 64;
    return (rules.lists ? room - kLeft : room / 3) * kOfBlock;
}

// Which mask the column has is for the caller to add.
LeanWant want_of(const Plan& plan, const SamplingParams& params, const BlockRoom& room);
// By put_under_mask(): one more than the mask's number. Where only ids of a list are looked at, what is told
// of the row is told without it.
void put_under_mask(LeanWant& want, const Plan& plan, const SamplingParams& params, std::uint16_t mask_row);

// Of the columns of a step: to find racers costs more than it saves where few columns have them. These get
// blocks by the race instead.
void spare_few_racers(std::span<LeanWant> wants, std::uint32_t room);

// Whether what is sent is sure to suffice for the decision, in a row of finite numbers whose blocks have
// different maxima.
bool suffices(const Plan& plan, const SamplingParams& params, const LeanWant& want);

}  // namespace croupier::request
