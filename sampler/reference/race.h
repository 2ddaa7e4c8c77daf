// The race of docs/semantics.md, token by token: no blocks are skipped.
#pragma once

#include <cstddef>

#include "sampler/reference/left.h"
#include "sampler/request.h"

namespace croupier::sampler::reference {

// Its place among the tokens that are left.
std::size_t race_winner(const Request& request, const Left& left);

}  // namespace croupier::sampler::reference
