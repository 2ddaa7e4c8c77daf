// The untruncated draw of docs/semantics.md: tokens are proposed by their blocks' largest logits, and
// rejected as far as these promised too much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sampler/proposals.h"
#include "sampler/reference/left.h"
#include "sampler/request.h"

namespace croupier::sampler::reference {

// Whether the request names its tokens, or masks all but a few: those are drawn from as they are.
bool allows_few(const Request& request);

ProposalRandoms randoms_of(const Request& request, std::uint32_t n);

struct Accepted {
    std::size_t token;  // its index in what is left
    std::uint32_t number;
};

// Nothing: all proposals were rejected.
std::optional<Accepted> propose(const Request& request, const Left& row, const Left& left);

}  // namespace croupier::sampler::reference
