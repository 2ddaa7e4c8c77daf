// For a whole row at once: the tokens whose hashes can win a draw of another engine (sampler/gumbel.h).
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"

namespace croupier::sampler {

struct HashKey {
    proto::Rng rng;  // sglang or vllm
    std::uint64_t seed;
    std::uint32_t position;  // of the input token
};

// Of each block, the tokens whose noise can be -ln(share) or more: that noise is at most -ln(1 - u) where the
// largest hashes win and -ln(u) where the smallest do, u being the hash's uniform. Blocks whose
// share is beyond all noise have none. At most `room` ids, ascending; returns how many there are.
std::uint32_t list_hashes_within(const HashKey& key, std::span<const float> shares,
                                 std::span<std::uint32_t> room) noexcept;

}  // namespace croupier::sampler
