#include "daemon/worker/prepared_races.h"

#include "proto/geometry.h"
#include "sampler/race_arrivals.h"

namespace croupier::daemon {

void PreparedRaces::prepare(const proto::race::Key& key, std::uint32_t vocab) {
    if (left_ == 0 || !find(key, vocab).ln_first.empty()) return;
    --left_;
    std::vector<float>& ln_first = ln_first_[next_];
    ln_first.resize(proto::blocks_of(vocab));
    sampler::make_first_arrivals(key, ln_first);
    keys_[next_] = key;
    next_ = (next_ + 1) % kMost;
}

sampler::PreparedRace PreparedRaces::find(const proto::race::Key& key, std::uint32_t vocab) const {
    for (std::size_t place = 0; place < kMost; ++place) {
        const bool same = keys_[place] == key && ln_first_[place].size() == proto::blocks_of(vocab);
        if (same) return {key, ln_first_[place]};
    }
    return {};
}

}  // namespace croupier::daemon
