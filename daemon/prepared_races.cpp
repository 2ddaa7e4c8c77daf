#include "daemon/prepared_races.h"

#include <algorithm>

#include "proto/geometry.h"
#include "sampler/race_arrivals.h"

namespace croupier::daemon {

void PreparedRaces::prepare(const proto::race::Key& key, std::uint32_t vocab) {
    const std::uint32_t blocks = proto::blocks_of(vocab);
    if (find(key).ln_first.size() == blocks) return;
    std::vector<float>& ln_first = ln_first_[next_];
    ln_first.resize(blocks);
    sampler::make_first_arrivals(key, ln_first);
    keys_[next_] = key;
    next_ = (next_ + 1) % kMost;
}

sampler::PreparedRace PreparedRaces::find(const proto::race::Key& key) const {
    const auto place = std::find(keys_.begin(), keys_.end(), key) - keys_.begin();
    if (place == kMost) return {};
    return {key, ln_first_[static_cast<std::size_t>(place)]};
}

}  // namespace croupier::daemon
