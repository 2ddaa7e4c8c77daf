#include "daemon/worker/sequence_lists.h"

namespace croupier::daemon {

ListCounts::ListCounts(const proto::SequenceEntry& entry)
    : bias(entry.bias_count),
      stops(entry.stop_count),
      allowed(entry.allowed_count),
      bad_words(entry.bad_words_count),
      breakers(entry.breakers_count),
      stop_words(entry.stop_words) {}

bool ListCounts::fit(const proto::Geometry& geometry) const {
    const std::uint64_t words = std::uint64_t{allowed} + bad_words + breakers + stop_words;
    return bias <= geometry.max_bias && stops <= geometry.max_stop_ids && words <= geometry.max_list_tokens;
}

SequenceLists::SequenceLists(const proto::Geometry& geometry) {
    bias_.reserve(geometry.max_bias);
    stops_.reserve(geometry.max_stop_ids);
    lists_.reserve(geometry.max_list_tokens);
}

void SequenceLists::copy(const shm::Segment& segment, std::uint32_t slot, const ListCounts& counts) {
    const proto::TokenBias* bias = segment.biases(slot);
    const std::int32_t* stops = segment.stop_ids(slot);
    const std::int32_t* lists = segment.lists(slot);
    bias_.assign(bias, bias + counts.bias);
    stops_.assign(stops, stops + counts.stops);
    stop_words_from_ = std::size_t{counts.allowed} + counts.bad_words + counts.breakers;
    lists_.assign(lists, lists + stop_words_from_ + counts.stop_words);
    allowed_ = counts.allowed;
    bad_words_ = counts.bad_words;
}

void SequenceLists::lend(sampler::Request& request) const {
    const std::span all(lists_.data(), stop_words_from_);
    request.bias = bias_;
    request.stop_ids = stops_;
    request.allowed_ids = all.first(allowed_);
    request.bad_words = all.subspan(allowed_, bad_words_);
    request.dry_breakers = all.subspan(allowed_ + bad_words_);
}

}  // namespace croupier::daemon
