#include "daemon/sequence_states.h"

#include <algorithm>
#include <cstring>

namespace croupier::daemon {

SequenceStates::SequenceStates(std::uint32_t vocab, std::uint32_t max_length, std::uint32_t sequences,
                               std::uint32_t threads)
    : vocab_(vocab),
      max_length_(max_length),
      sequences_(sequences),
      tracked_(std::size_t{sequences} * threads) {}

sampler::SequenceState& SequenceStates::of(std::size_t thread, std::uint32_t slot, std::uint64_t uid,
                                           const proto::SamplingParams& params,
                                           sampler::TokenLists dry_breakers) {
    Tracked& tracked = tracked_[thread * sequences_ + slot];
    // Bit for bit, which a struct without padding allows: another NaN or zero is another request.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    const bool same_params = std::memcmp(&tracked.params, &params, sizeof(params)) == 0;
    const bool same_breakers = std::equal(dry_breakers.begin(), dry_breakers.end(), tracked.breakers.begin(),
                                          tracked.breakers.end());
    const bool known = tracked.state != nullptr && tracked.uid == uid && same_params && same_breakers;
    if (known) return *tracked.state;
    if (tracked.state == nullptr) {
        tracked.state = std::make_unique<sampler::SequenceState>(vocab_, max_length_);
    }
    tracked.state->begin(params, dry_breakers);
    tracked.uid = uid;
    tracked.params = params;
    tracked.breakers.assign(dry_breakers.begin(), dry_breakers.end());
    return *tracked.state;
}

}  // namespace croupier::daemon
