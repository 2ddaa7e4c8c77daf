// The draw, or what takes its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/decision.h"
#include "sampler/reference/account.h"
#include "sampler/reference/left.h"
#include "sampler/request.h"

namespace croupier::sampler::reference {

struct Draw {
    Weights weights;        // of the tokens that it left: those that were drawn from
    std::size_t drawn = 0;  // the drawn token's place among them
    std::string how;        // it was chosen
    proto::Feedback feedback;
};

// `left` becomes the distribution that is drawn from; `row` is all that the row held.
Draw draw(const Request& request, std::uint32_t vocab, const Left& row, Left& left, Account& account);

}  // namespace croupier::sampler::reference
