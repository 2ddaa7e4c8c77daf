// The hot set of a sequence: the blocks that hold so many ids at the start of its model's order, rounded up
// to whole blocks. What a sequence was given when it was admitted it keeps, because its untruncated draws
// depend on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/sampling.h"

namespace croupier::proto {

// A choice is what the table says: 0 for none, i for the blocks of the first kHotSizes[i - 1] ids. The costs
// of two neighbours differ by little more than they can be measured to.
constexpr std::array<std::uint32_t, 11> kHotSizes = {256,   512,   1024,  2048,   4096,  8192,
                                                     16384, 32768, 65536, 131072, 262144};
constexpr std::uint32_t kHotChoices = 1 + kHotSizes.size();

// While another size is tried, it is given to one new sequence in so many.
constexpr std::uint32_t kHotTrialShare = 4;

constexpr std::uint32_t hot_size(std::uint32_t choice) {
    return choice == 0 || choice >= kHotChoices ? 0 : kHotSizes[choice - 1];
}

// Of the smallest hot set that has so many ids, if one has.
constexpr std::uint32_t hot_choice_of(std::uint32_t size) {
    std::uint32_t choice = 0;
    while (hot_size(choice) < size && choice + 1 < kHotChoices) ++choice;
    return choice;
}

// A sequence whose operator has chosen a hot set draws by it; what a request names itself it keeps.
constexpr Rng rng_with_hot_set(Rng asked) {
    return asked == Rng::race ? Rng::shvs : asked;
}

}  // namespace croupier::proto
