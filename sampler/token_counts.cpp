#include "sampler/token_counts.h"

#include <algorithm>

#include "sampler/growing.h"

namespace croupier::sampler {

void TokenCounts::clear() {
    distinct_.clear();
    if (buckets_.empty()) {
        use_buckets(kFirstBits);
    } else {
        std::fill(buckets_.begin(), buckets_.end(), kEmpty);
    }
}

void TokenCounts::add(std::uint32_t token) {
    const std::uint32_t place = place_with_room(token);
    stand(place, standing_at(place) + 1);
}

void TokenCounts::add_in_prompt(std::uint32_t token) {
    const std::uint32_t place = place_with_room(token);
    stand(place, standing_at(place) | kInPrompt);
}

void TokenCounts::leave(std::uint32_t token) {
    const std::uint32_t place = place_of(token);
    stand(place, standing_at(place) - 1);
    if (standing_at(place) != 0) return;
    const std::uint32_t listed = listed_at_[place];
    const Counted moved = distinct_.back();
    listed_at_[place_of(moved.token)] = listed;
    distinct_[listed] = moved;
    distinct_.pop_back();
    empty_place(place);
}

void TokenCounts::stand(std::uint32_t place, std::uint32_t standing) {
    standing_at(place) = standing;
    distinct_[listed_at_[place]].standing = standing;
}

std::uint32_t TokenCounts::place_of(std::uint32_t token) {
    std::uint32_t place = home(token) * kLanes;
    while (token_at(place) != token && token_at(place) != kNone) place = next(place);
    return place;
}

std::uint32_t TokenCounts::place_with_room(std::uint32_t token) {
    std::uint32_t place = place_of(token);
    if (token_at(place) == token) return place;
    if (2 * (distinct_.size() + 1) > listed_at_.size()) {
        use_buckets(32 - shift_ + 1);
        place = place_of(token);
    }
    token_at(place) = token;
    standing_at(place) = 0;
    listed_at_[place] = static_cast<std::uint32_t>(distinct_.size());
    push_growing(distinct_, Counted{token, 0});
    return place;
}

void TokenCounts::use_buckets(std::uint32_t bits) {
    std::vector<Bucket> before(std::size_t{1} << bits, kEmpty);
    before.swap(buckets_);
    bucket_mask_ = (1U << bits) - 1;
    shift_ = 32 - bits;
    listed_at_ = std::vector<std::uint32_t>(buckets_.size() * kLanes);
    for (const Bucket& bucket : before) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
            if (bucket.tokens[lane] == kNone) continue;
            const std::uint32_t place = place_of(bucket.tokens[lane]);
            token_at(place) = bucket.tokens[lane];
            standing_at(place) = bucket.standings[lane];
        }
    }
    for (std::uint32_t listed = 0; listed < distinct_.size(); ++listed) {
        listed_at_[place_of(distinct_[listed].token)] = listed;
    }
}

// Draws nearer what stands behind the place and may stand in it, so that no search ends too early.
void TokenCounts::empty_place(std::uint32_t place) {
    const std::uint32_t mask = bucket_mask_ * kLanes + kLanes - 1;
    for (std::uint32_t at = next(place); token_at(at) != kNone; at = next(at)) {
        const std::uint32_t from_home = (at - home(token_at(at)) * kLanes) & mask;
        if (from_home < ((at - place) & mask)) continue;
        token_at(place) = token_at(at);
        standing_at(place) = standing_at(at);
        listed_at_[place] = listed_at_[at];
        place = at;
    }
    token_at(place) = kNone;
}

std::size_t TokenCounts::bytes() const {
    return bytes_of(buckets_) + bytes_of(listed_at_) + bytes_of(distinct_);
}

}  // namespace croupier::sampler
